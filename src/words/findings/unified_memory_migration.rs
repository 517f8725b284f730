//! `unified-memory-migration`: its title, evidence and action.

use super::Amount;
use crate::trace::Vendor;
use crate::words::counted;

pub(crate) const TITLE: &str = "migration of unified memory";

pub(crate) fn evidence(amount: Amount, migrations: u64) -> String {
    format!("{amount} in {} of pages between host and GPU", counted(migrations, "migration", "migrations"))
}

pub(crate) fn action(vendor: Vendor) -> String {
    let prefetch = match vendor {
        Vendor::Nvidia => "`cudaMemPrefetchAsync`",
        Vendor::Amd => "`hipMemPrefetchAsync`",
        Vendor::Intel => "`queue.prefetch`",
        Vendor::Huawei | Vendor::Google => "a copy to the device",
    };
    let advise = if vendor == Vendor::Nvidia { " Set `cudaMemAdvise` for data that one side only reads." } else { "" };
    format!("Prefetch the data with {prefetch} before the kernel that uses it.{advise}")
}
