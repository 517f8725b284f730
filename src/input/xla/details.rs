//! The texts of the stats `kernel_details`, `memcpy_details` and `Memset_details`: words of a key and a value, such as
//! `regs:168 static_shared:0 dynamic_shared:99328 grid:132,1,1 block:128,1,1 occ_pct:12.5`. O(bytes).

use crate::trace::{LaunchConfig, LaunchConfigs};

/// No thread has more, on any GPU: NVIDIA's have 255, AMD's 512.
const MAX_REGISTERS: u32 = 1024;

/// Such a text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Details<'a>(pub(super) &'a [u8]);

impl<'a> Details<'a> {
    fn value(self, key: &str) -> Option<&'a str> {
        let words = self.0.split(|byte| *byte == b' ');
        let value = |word: &'a [u8]| word.strip_prefix(key.as_bytes())?.strip_prefix(b":");
        words.filter_map(value).next().and_then(|value| std::str::from_utf8(value).ok())
    }

    fn number<T: std::str::FromStr>(self, key: &str) -> Option<T> {
        self.value(key)?.parse().ok()
    }

    /// The bytes of a copy or set.
    pub(super) fn bytes(self) -> Option<u64> {
        self.number("size").or_else(|| self.number("num_bytes"))
    }

    /// The name of a copy as other profilers write it, `Memcpy HtoD (Pinned -> Device)`, if its ends are known.
    pub(super) fn copy_name(self) -> Option<String> {
        let place = |key| match self.value(key)? {
            "pageable" => Some(("H", "Pageable")),
            "pinned" => Some(("H", "Pinned")),
            "device" => Some(("D", "Device")),
            "array" => Some(("A", "Array")),
            "managed" | "device_static" | "managed_static" => Some(("D", "Managed")),
            _ => None,
        };
        let ((from, source), (to, target)) = (place("kind_src")?, place("kind_dst")?);
        Some(format!("Memcpy {from}to{to} ({source} -> {target})"))
    }

    /// Grid, block and memory of a kernel. Old profilers of AMD write parts of addresses where registers and shared memory belong.
    pub(super) fn launch_config(self) -> Option<LaunchConfig> {
        if !LaunchConfigs::ARE_READ {
            return None;
        }
        let sizes = |key| {
            let mut numbers = self.value(key)?.split(',').map(|number| number.parse().ok());
            Some([numbers.next()??, numbers.next()??, numbers.next()??])
        };
        let registers = self.number::<u32>("regs");
        let is_garbage = registers.is_some_and(|count| count > MAX_REGISTERS);
        let counted = |key: &str| self.number::<u32>(key).filter(|_| !is_garbage);
        let shared = match (counted("static_shared"), counted("dynamic_shared")) {
            (None, None) => counted("shm").or_else(|| self.number("group_mem")),
            (fixed, dynamic) => Some(fixed.unwrap_or(0).saturating_add(dynamic.unwrap_or(0))),
        };
        Some(LaunchConfig {
            grid: sizes("grid")?,
            block: sizes("block")?,
            registers: registers.filter(|_| !is_garbage),
            shared_bytes: shared,
            occupancy_pct: self.number::<f64>("occ_pct").filter(|pct| *pct > 0.0).map(|pct| pct as u32),
        })
    }
}

/// The name of a copy by the word of CUPTI for its direction: `MemcpyD2H` is `Memcpy DtoH`, as Kineto writes it.
pub(super) fn copy_by_direction(name: &str) -> Option<String> {
    let direction = name.strip_prefix("Memcpy")?;
    let (from, to) = direction.split_once('2')?;
    let is_place = |place: &str| matches!(place, "H" | "D" | "A" | "P");
    (is_place(from) && is_place(to)).then(|| format!("Memcpy {from}to{to}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn details_of_nvidia_and_amd_are_read() {
        let nvidia = Details(b"regs:168 static_shared:8 dynamic_shared:99328 grid:132,2,1 block:128,1,1 occ_pct:12.5");
        let config = LaunchConfig {
            grid: [132, 2, 1],
            block: [128, 1, 1],
            registers: Some(168),
            shared_bytes: Some(99_336),
            occupancy_pct: Some(12),
        };
        assert_eq!(nvidia.launch_config(), Some(config));
        let amd = Details(b" grid:1,1,1 block:2,1,1 private_mem:0 group_mem:64 occ_pct:0").launch_config().unwrap();
        assert_eq!((amd.registers, amd.shared_bytes, amd.occupancy_pct), (None, Some(64), None));
        let garbage = Details(b"regs:2191500840 static_shared:32462 dynamic_shared:0 grid:1280,1,1 block:256,1,1");
        let garbage = garbage.launch_config().unwrap();
        assert_eq!((garbage.registers, garbage.shared_bytes), (None, None));
        let tensorflow = Details(b"regs:38 shm:16 grid:160,1,1 block:1024,1,1").launch_config().unwrap();
        assert_eq!((tensorflow.registers, tensorflow.shared_bytes), (Some(38), Some(16)));
        assert_eq!(Details(b"grid:1,1 block:1,1,1").launch_config(), None);
    }

    #[test]
    fn copies_have_a_size_and_a_name_with_their_ends() {
        let copy = Details(b"kind_src:pageable kind_dst:device size:1048576 dest:0 async:1");
        assert_eq!(
            (copy.bytes(), copy.copy_name().unwrap()),
            (Some(1_048_576), "Memcpy HtoD (Pageable -> Device)".into())
        );
        assert_eq!(Details(b"kind:Unknown size:655360 dest:2 async:1").copy_name(), None);
        assert_eq!(Details(b"kind:device num_bytes:4096 async:1").bytes(), Some(4096));
        assert_eq!(copy_by_direction("MemcpyD2H").as_deref(), Some("Memcpy DtoH"));
        assert_eq!(["MemcpyOther", "Memcpy", "CopyDeviceToDevice"].map(copy_by_direction), [None, None, None]);
    }
}
