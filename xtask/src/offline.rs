//! Writes the list of files into the service worker, which caches them for visits without a network.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

pub const SERVICE_WORKER: &str = "service-worker.js";

/// The line of `www/service-worker.js` that is replaced by the list.
const WITHOUT_LIST: &str = "const BUILD = { version: '', first: {}, later: {} };";

/// Replaces the empty list of the service worker in `dist`. The files `first` are cached at once, the files `later` when they are
/// first requested.
pub fn list_files(dist: &Path, first: &[String], later: &[String]) -> Result<()> {
    let path = dist.join(SERVICE_WORKER);
    let script = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    if script.matches(WITHOUT_LIST).count() != 1 {
        bail!("{} has no line `{WITHOUT_LIST}` for the list of files", path.display());
    }
    let build = build(hashes(dist, first)?, hashes(dist, later)?);
    fs::write(&path, script.replace(WITHOUT_LIST, &format!("const BUILD = {build:#};")))?;
    Ok(())
}

/// The list and its version, a hash of all files.
fn build(first: Map<String, Value>, later: Map<String, Value>) -> Value {
    let version = hash(json!([first, later]).to_string().as_bytes());
    json!({ "version": version, "first": first, "later": later })
}

/// The `integrity` value of each file.
fn hashes(dist: &Path, names: &[String]) -> Result<Map<String, Value>> {
    let entry = |name: &String| -> Result<(String, Value)> {
        let bytes = fs::read(dist.join(name)).with_context(|| format!("cannot read {name} of the page"))?;
        Ok((name.clone(), Value::from(format!("sha256-{}", hash(&bytes)))))
    };
    names.iter().map(entry).collect()
}

fn hash(bytes: &[u8]) -> String {
    STANDARD.encode(Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    use super::{WITHOUT_LIST, hash, list_files};
    use std::fs;

    #[test]
    fn hashes_are_base64_sha256() {
        // The SHA-256 of the empty string.
        assert_eq!(hash(b""), "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=");
    }

    #[test]
    fn a_changed_file_changes_the_version() {
        let dist = std::env::temp_dir().join(format!("xtask-offline-{}", std::process::id()));
        fs::create_dir_all(&dist).unwrap();
        let written = |content: &str| {
            fs::write(dist.join("service-worker.js"), format!("// x\n{WITHOUT_LIST}\ncode();\n")).unwrap();
            fs::write(dist.join("app.js"), content).unwrap();
            list_files(&dist, &["app.js".to_owned()], &[]).unwrap();
            fs::read_to_string(dist.join("service-worker.js")).unwrap()
        };
        let (one, other) = (written("1"), written("2"));
        assert!(one.starts_with("// x\nconst BUILD = {") && one.ends_with("\ncode();\n"), "{one}");
        assert!(one.contains("\"app.js\": \"sha256-"), "{one}");
        assert_ne!(one, other);
        assert_eq!(one, written("1"));
        assert!(list_files(&dist, &[], &[]).is_err(), "the list can be written only once");
    }
}
