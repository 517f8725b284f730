//! The processor time of a check: what its processes used, so that the times of checks that run side by side can be compared.

/// A line of a check's log begins with this.
const LABEL: &str = "processor seconds: ";

/// Linux counts in hundredths of a second here, whatever the machine.
const TICKS_PER_SECOND: u64 = 100;

/// Prints the processor time of all processes that this one has started and that have ended, where the system tells it.
pub fn print() {
    if let Some(seconds) = std::fs::read_to_string("/proc/self/stat").ok().and_then(|stat| of_children(&stat)) {
        println!("{LABEL}{seconds}");
    }
}

/// The time that [`print`] wrote into a log.
pub fn read(log: &str) -> Option<u64> {
    log.lines().rev().find_map(|line| line.strip_prefix(LABEL))?.parse().ok()
}

/// User and system time of the children, from `/proc/PID/stat` (proc_pid_stat(5): the fields 16 and 17).
fn of_children(stat: &str) -> Option<u64> {
    // The second field is the name in parentheses, which may contain spaces.
    let after_name = stat.rsplit_once(") ")?.1;
    let mut fields = after_name.split(' ').skip(13);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some((user + system) / TICKS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::{of_children, read};

    #[test]
    fn the_times_of_children_are_added() {
        // The fields 1 to 17 as the manual numbers them; 16 and 17 are the children's.
        assert_eq!(of_children("1 (a) b) 3 4 5 6 7 8 9 10 11 12 13 14 15 1650 1750 18"), Some(34));
        assert_eq!(of_children("1 (a) R 4"), None);
    }

    #[test]
    fn the_last_line_with_a_time_counts() {
        assert_eq!(read("processor seconds: 1\nprocessor seconds: 22\nend"), Some(22));
        assert_eq!(read("no time"), None);
    }
}
