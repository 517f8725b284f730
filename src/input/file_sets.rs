//! Finds the files that belong to one run: the CSV files of rocprofv3, whose names differ in their last words. Some or all may be
//! gzipped.
//!
//! The tables of a set are read one after the other as one stream, each with its header, by the same reader.

/// The ends of the names of rocprofv3's tables, in the order in which they are read: kernels before counters, which have the
/// same kernels.
const TABLES: [&str; 11] = [
    "kernel_trace.csv",
    "memory_copy_trace.csv",
    "hip_api_trace.csv",
    "marker_api_trace.csv",
    "rccl_api_trace.csv",
    "hsa_api_trace.csv",
    "memory_allocation_trace.csv",
    "scratch_memory_trace.csv",
    "counter_collection.csv",
    "agent_info.csv",
    "domain_stats.csv",
];

/// Returns the indices of the files by run, in the order of their first files. A file that belongs to no set is alone.
pub fn by_run(paths: &[String]) -> Vec<Vec<usize>> {
    let mut runs: Vec<(Option<&str>, Vec<usize>)> = Vec::new();
    for (index, path) in paths.iter().enumerate() {
        let prefix = run_and_table(path).map(|(run, _)| run);
        match runs.iter_mut().find(|(known, _)| prefix.is_some() && *known == prefix) {
            Some((_, files)) => files.push(index),
            None => runs.push((prefix, vec![index])),
        }
    }
    let table = |index: &usize| paths.get(*index).and_then(|path| run_and_table(path)).map(|(_, table)| table);
    runs.into_iter()
        .map(|(_, mut files)| {
            crate::ordering::sort_by_key(&mut files, |index| table(index));
            files
        })
        .collect()
}

/// Returns the files of the one run in a folder: the tables of rocprofv3, or the trace of torch_npu or of XLA, which has
/// all that the other files of its folder have. `None` if there is no run or more than one.
pub fn in_folder(paths: &[String]) -> Option<Vec<usize>> {
    let named = |name: &str| -> Vec<usize> {
        let is_named =
            |path: &str| path.rsplit('/').next().is_some_and(|base| base.strip_suffix(".gz").unwrap_or(base) == name);
        (0..paths.len()).filter(|index| paths.get(*index).is_some_and(|path| is_named(path))).collect()
    };
    for name in ["trace_view.json", "kernel_details.csv"] {
        let found = named(name);
        if !found.is_empty() {
            return (found.len() == 1).then_some(found);
        }
    }
    let has_kernels = |set: &Vec<usize>| {
        set.first()
            .and_then(|index| paths.get(*index))
            .is_some_and(|path| run_and_table(path).is_some_and(|(_, rank)| rank == 0))
    };
    let mut sets = by_run(paths).into_iter().filter(has_kernels);
    if let Some(set) = sets.next() {
        return Some(set).filter(|_| sets.next().is_none());
    }
    let is_profile = |path: &String| path.strip_suffix(".gz").unwrap_or(path).ends_with(".xplane.pb");
    let profiles: Vec<usize> = (0..paths.len()).filter(|index| paths.get(*index).is_some_and(is_profile)).collect();
    (profiles.len() == 1).then_some(profiles)
}

/// Returns the part of the path that the tables of a run share, and the rank of the table.
fn run_and_table(path: &str) -> Option<(&str, usize)> {
    let path = path.strip_suffix(".gz").unwrap_or(path);
    TABLES.iter().enumerate().find_map(|(rank, end)| Some((path.strip_suffix(end)?, rank)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_with_the_same_beginning_are_one_run_with_the_kernels_first() {
        let paths = [
            "d/1_hip_api_trace.csv",
            "x.json",
            "d/2_kernel_trace.csv",
            "d/1_kernel_trace.csv.gz",
            "e/1_agent_info.csv",
        ];
        let paths: Vec<String> = paths.map(str::to_owned).to_vec();
        assert_eq!(by_run(&paths), [vec![3, 0], vec![1], vec![2], vec![4]]);
    }

    #[test]
    fn a_folder_of_one_run_is_that_run() {
        let indices = |paths: &[&str]| in_folder(&paths.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>());
        let ascend = [
            "PROF_1/device_0/x.csv",
            "ASCEND_PROFILER_OUTPUT/kernel_details.csv",
            "ASCEND_PROFILER_OUTPUT/trace_view.json",
        ];
        assert_eq!(indices(&ascend), Some(vec![2]));
        let host = ["plugins/profile/T/a.trace.json.gz", "plugins/profile/T/a.xplane.pb"];
        assert_eq!(indices(&host), Some(vec![1]));
        assert_eq!(indices(&["T/a.xplane.pb", "T/b.xplane.pb"]), None, "two hosts are ranks");
        assert_eq!(indices(&["h/1_hip_api_trace.csv", "h/1_kernel_trace.csv"]), Some(vec![1, 0]));
        assert_eq!(indices(&["h/1_kernel_trace.csv", "h/2_kernel_trace.csv"]), None);
        assert_eq!(indices(&["h/1_kernel_trace.csv.gz", "h/1_agent_info.csv"]), Some(vec![0, 1]));
        assert_eq!(indices(&["a/trace_view.json.gz"]), Some(vec![0]));
        let both = ["plugins/profile/T/a.xplane.pb", "1_kernel_trace.csv"];
        assert_eq!(indices(&both), Some(vec![1]), "the tables of the GPU's own profiler come first");
        assert_eq!(indices(&["a.json"]), None);
    }
}
