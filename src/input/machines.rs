//! Names of GPUs and processes of several machines in one file. Two machines number their GPUs and processes alike. O(1).

/// The name of a thing on one of several machines, by the place of the machine in the file. It is written like those of merged
/// ranks. What is on the first machine has it only if there is another one.
pub(super) fn on_machine(place: usize, name: &str) -> String {
    format!("[machine {}]{}{name}", place + 1, if name.is_empty() { "" } else { " " })
}
