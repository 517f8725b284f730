//! Packs the extension for VS Code: a `.vsix`, which is a ZIP archive with the files of `vscode/`, the built page and two manifests. Linear in
//! the size of the page.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use flate2::{Compression, Crc, write::DeflateEncoder};
use serde_json::Value;

use crate::wasm::Purpose;
use crate::{page, project};

/// The files of the extension besides the page.
const FILES: [&str; 5] = ["package.json", "extension.js", "page-server.js", "webview.js", "README.md"];

/// Builds the page and packs it into `out`, or into `target/gpuprism.vsix`.
pub fn build(out: Option<&Path>) -> Result<()> {
    let folder = project::target_dir()?.join("vscode-page");
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("cannot empty {}", folder.display()))?;
    }
    page::build(Some(&folder), Purpose::Publish)?;
    let out = match out {
        Some(out) => out.to_owned(),
        None => default_file()?,
    };
    pack(&folder, &out)?;
    println!("install it with: code --install-extension {}", out.display());
    Ok(())
}

/// Where the extension is, unless told otherwise.
pub fn default_file() -> Result<PathBuf> {
    Ok(project::target_dir()?.join("gpuprism.vsix"))
}

/// Packs a built page into the extension.
pub fn pack(page: &Path, out: &Path) -> Result<()> {
    let source = project::root().join("vscode");
    let package = fs::read_to_string(source.join("package.json")).context("cannot read vscode/package.json")?;
    let mut archive = Archive::default();
    archive.add("extension.vsixmanifest", manifest(&serde_json::from_str(&package)?)?.as_bytes())?;
    archive.add("[Content_Types].xml", content_types(page)?.as_bytes())?;
    for name in FILES {
        let bytes = fs::read(source.join(name)).with_context(|| format!("cannot read vscode/{name}"))?;
        archive.add(&format!("extension/{name}"), &bytes)?;
    }
    archive.add("extension/LICENSE.txt", &fs::read(project::root().join("LICENSE"))?)?;
    for file in page::files_under(page)? {
        let name = file.strip_prefix(page)?.to_string_lossy().replace('\\', "/");
        archive.add(&format!("extension/page/{name}"), &fs::read(&file)?)?;
    }
    if let Some(folder) = out.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(out, archive.finish()?).with_context(|| format!("cannot write {}", out.display()))
}

/// The manifest that VS Code reads before the one of the extension.
fn manifest(package: &Value) -> Result<String> {
    let text = |key: &str| -> Result<String> {
        let text = package[key].as_str().with_context(|| format!("vscode/package.json has no {key}"))?;
        Ok(text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;"))
    };
    let engine = package["engines"]["vscode"].as_str().context("vscode/package.json has no version of VS Code")?;
    Ok(format!(
        r#"<?xml version="1.0" encoding="utf-8"?>
<PackageManifest Version="2.0.0" xmlns="http://schemas.microsoft.com/developer/vsx-schema/2011">
<Metadata>
<Identity Language="en-US" Id="{name}" Version="{version}" Publisher="{publisher}"/>
<DisplayName>{title}</DisplayName>
<Description xml:space="preserve">{about}</Description>
<Categories>Visualization,Other</Categories>
<License>extension/LICENSE.txt</License>
<Properties>
<Property Id="Microsoft.VisualStudio.Code.Engine" Value="{engine}"/>
<Property Id="Microsoft.VisualStudio.Code.ExtensionKind" Value="workspace"/>
</Properties>
</Metadata>
<Installation><InstallationTarget Id="Microsoft.VisualStudio.Code"/></Installation>
<Dependencies/>
<Assets>
<Asset Type="Microsoft.VisualStudio.Code.Manifest" Path="extension/package.json" Addressable="true"/>
<Asset Type="Microsoft.VisualStudio.Services.Content.Details" Path="extension/README.md" Addressable="true"/>
<Asset Type="Microsoft.VisualStudio.Services.Content.License" Path="extension/LICENSE.txt" Addressable="true"/>
</Assets>
</PackageManifest>
"#,
        name = text("name")?,
        version = text("version")?,
        publisher = text("publisher")?,
        title = text("displayName")?,
        about = text("description")?,
    ))
}

/// The types of the files by their endings, without which the archive is no package.
fn content_types(page: &Path) -> Result<String> {
    let files = page::files_under(page)?;
    let endings = files.iter().filter_map(|file| Some(file.extension()?.to_string_lossy().into_owned()));
    let mut endings: Vec<String> =
        endings.chain(["json", "js", "md", "txt", "vsixmanifest"].map(str::to_owned)).collect();
    endings.sort_unstable();
    endings.dedup();
    let type_of = |ending: &str| match ending {
        "vsixmanifest" => "text/xml",
        "json" => "application/json",
        "js" => "application/javascript",
        "md" | "txt" => "text/plain",
        "html" => "text/html",
        "css" => "text/css",
        "wasm" => "application/wasm",
        "svg" => "image/svg+xml",
        _ => "application/octet-stream",
    };
    let lines = endings
        .iter()
        .map(|ending| format!("<Default Extension=\".{ending}\" ContentType=\"{}\"/>\n", type_of(ending)));
    Ok(format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<Types xmlns=\"http://schemas.openxmlformats.org/package/2006/content-types\">\n{}</Types>\n",
        lines.collect::<String>()
    ))
}

/// A ZIP archive in memory. Files have no modification time, so equal pages give equal archives.
#[derive(Default)]
struct Archive {
    bytes: Vec<u8>,
    directory: Vec<u8>,
    count: u16,
}

/// The first year of the format, the first day.
const DATE: u16 = 0x0021;

impl Archive {
    fn add(&mut self, name: &str, content: &[u8]) -> Result<()> {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(content)?;
        let deflated = encoder.finish()?;
        let mut crc = Crc::new();
        crc.update(content);
        let offset = u32::try_from(self.bytes.len())?;
        let mut shared = Vec::new();
        // Version 2.0, names in UTF-8, deflate, no time.
        for number in [20_u16, 0x0800, 8, 0, DATE] {
            shared.extend(number.to_le_bytes());
        }
        for number in [crc.sum(), u32::try_from(deflated.len())?, u32::try_from(content.len())?] {
            shared.extend(number.to_le_bytes());
        }
        shared.extend(u16::try_from(name.len())?.to_le_bytes());
        shared.extend(0_u16.to_le_bytes());
        self.bytes.extend(b"PK\x03\x04");
        self.bytes.extend(&shared);
        self.bytes.extend(name.as_bytes());
        self.bytes.extend(deflated);
        self.directory.extend(b"PK\x01\x02\x14\x00");
        self.directory.extend(&shared);
        // No comment, first disk, no attributes.
        self.directory.extend([0; 10]);
        self.directory.extend(offset.to_le_bytes());
        self.directory.extend(name.as_bytes());
        self.count = self.count.checked_add(1).context("too many files for a ZIP archive")?;
        Ok(())
    }

    fn finish(mut self) -> Result<Vec<u8>> {
        if self.count == 0 {
            bail!("an empty archive");
        }
        let (offset, length) = (u32::try_from(self.bytes.len())?, u32::try_from(self.directory.len())?);
        self.bytes.extend(&self.directory);
        self.bytes.extend(b"PK\x05\x06\x00\x00\x00\x00");
        self.bytes.extend([self.count.to_le_bytes(), self.count.to_le_bytes()].concat());
        self.bytes.extend(length.to_le_bytes());
        self.bytes.extend(offset.to_le_bytes());
        self.bytes.extend([0; 2]);
        Ok(self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifest_has_the_name_and_version_of_the_extension() {
        let package = fs::read_to_string(project::root().join("vscode/package.json")).unwrap();
        let package: Value = serde_json::from_str(&package).unwrap();
        let text = manifest(&package).unwrap();
        let version = package["version"].as_str().unwrap();
        assert!(text.contains(&format!("Id=\"gpuprism\" Version=\"{version}\" Publisher=\"gpuprism\"")), "{text}");
        assert!(text.contains("Value=\"^1.85.0\""), "{text}");
    }

    #[test]
    fn an_archive_has_a_header_for_each_file_and_a_directory_with_their_offsets() {
        let mut archive = Archive::default();
        archive.add("a.txt", b"some text").unwrap();
        archive.add("b/c.txt", &[b'x'; 5_000]).unwrap();
        let bytes = archive.finish().unwrap();
        let count = |signature: &[u8]| bytes.windows(4).filter(|part| *part == signature).count();
        assert_eq!((count(b"PK\x03\x04"), count(b"PK\x01\x02"), count(b"PK\x05\x06")), (2, 2, 1));
        let directory = bytes.windows(4).position(|part| part == b"PK\x01\x02").unwrap();
        let end = bytes.len() - 22;
        assert_eq!(bytes[end + 16..end + 20], u32::try_from(directory).unwrap().to_le_bytes());
        assert!(bytes.len() < 500, "the second file is deflated: {}", bytes.len());
    }
}
