//! Runs the steps of `deploy/Dockerfile` without a container engine: the files that the build stage gets, the command that builds, and
//! the final stage in a folder of its own, with its user, environment, entry point, health check and stop signal.
//!
//! The final stage needs Linux, root, `chroot` and `ldd`. The libraries of the base image are those of this machine, but only those that
//! `distroless/cc` has. The folder is read-only for the user by its permissions.

use crate::cli::example::write_torch;
use crate::cli::serve::{Serve, ended};
use crate::common::directory;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The user `nonroot` of distroless images.
const NONROOT: &str = "65532";
/// The C library and compiler runtime of `distroless/cc`.
const BASE_LIBRARIES: [&str; 9] = [
    "ld-linux",
    "libc.so",
    "libdl.so",
    "libgcc_s.so",
    "libm.so",
    "libpthread.so",
    "libresolv.so",
    "librt.so",
    "libstdc++.so",
];

/// Instruction and argument of each line, a list per stage.
fn stages() -> Vec<Vec<(String, String)>> {
    let text = std::fs::read_to_string(root().join("deploy/Dockerfile")).unwrap();
    let mut stages: Vec<Vec<(String, String)>> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (instruction, argument) = line.split_once(' ').unwrap();
        if instruction == "FROM" {
            stages.push(Vec::new());
        }
        stages.last_mut().unwrap().push((instruction.to_owned(), argument.to_owned()));
    }
    stages
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn words(list: &str) -> Vec<String> {
    serde_json::from_str(list).unwrap()
}

/// Copies the files that `COPY . .` takes: all of the repository without those that `.dockerignore` lists.
fn copy_context(to: &Path) {
    let ignored = std::fs::read_to_string(root().join(".dockerignore")).unwrap();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        std::fs::create_dir_all(to.join(&folder)).unwrap();
        for entry in std::fs::read_dir(root().join(&folder)).unwrap().flatten() {
            let path = folder.join(entry.file_name());
            if ignored.lines().any(|line| Path::new(line) == path) {
                continue;
            }
            if entry.file_type().unwrap().is_dir() {
                folders.push(path);
            } else if entry.file_type().unwrap().is_file() {
                std::fs::copy(entry.path(), to.join(&path)).unwrap();
            }
        }
    }
}

#[test]
fn the_build_stage_gets_a_complete_workspace_and_builds_the_tested_program() {
    let stage = &stages()[0];
    let is = |line: &(String, String), instruction: &str, argument: &str| line.0 == instruction && line.1 == argument;
    assert!(stage.iter().any(|line| is(line, "COPY", ". .")), "{stage:?}");
    let (_, build) = stage.iter().find(|(name, words)| name == "RUN" && words.starts_with("cargo")).unwrap();
    // Neither features nor another target: the program is the one that cargo builds for these tests.
    let (mut is_locked, mut program, mut profile) = (false, "", "dev");
    let mut arguments = build.strip_prefix("cargo build ").unwrap().split(' ');
    while let Some(argument) = arguments.next() {
        match argument {
            "--locked" => is_locked = true,
            "--release" => profile = "release",
            "--bin" => program = arguments.next().unwrap(),
            other => panic!("the tests do not build with {other}"),
        }
    }
    assert_eq!((is_locked, program, profile), (true, "gpuprism", "release"));
    // Cargo finds every package of the workspace in the copied files, and the lock file is up to date.
    let context = directory("image_context");
    copy_context(&context);
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let metadata = Command::new(cargo)
        .args(["metadata", "--locked", "--offline", "--format-version", "1", "--no-deps"])
        .current_dir(&context)
        .output()
        .unwrap();
    assert!(metadata.status.success(), "{}", String::from_utf8_lossy(&metadata.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&metadata.stdout).unwrap();
    let targets =
        metadata["packages"].as_array().unwrap().iter().flat_map(|package| package["targets"].as_array().unwrap());
    let programs: Vec<&serde_json::Value> = targets.filter(|target| target["kind"][0] == "bin").collect();
    assert!(programs.iter().any(|target| target["name"] == program), "{programs:?}");
    std::fs::remove_dir_all(context).unwrap();
}

/// The final stage, in a folder that stands for the image.
struct Image {
    root: PathBuf,
    environment: BTreeMap<String, String>,
    entry_point: Vec<String>,
    command: Vec<String>,
    health_check: Vec<String>,
}

impl Image {
    /// Executes the instructions of the final stage; `None`, with the reason printed, where that is not possible.
    fn build(folder: &Path) -> Option<Self> {
        let is_root = Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n");
        let has = |program: &str| Command::new(program).arg("--version").output().is_ok();
        if !(cfg!(target_os = "linux") && is_root && has("chroot") && has("ldd")) {
            println!("skipped: the steps of the image need Linux, root, chroot and ldd");
            return None;
        }
        let mut image = Self {
            root: folder.join("image"),
            // As container engines set it.
            environment: BTreeMap::from([(
                "PATH".to_owned(),
                "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned(),
            )]),
            entry_point: Vec::new(),
            command: Vec::new(),
            health_check: Vec::new(),
        };
        for (instruction, argument) in stages().pop().unwrap() {
            match instruction.as_str() {
                "FROM" => image.copy_base(),
                "COPY" => image.copy_program(&argument),
                "USER" => assert_eq!(argument, "nonroot"),
                "ENV" => {
                    let (name, value) = argument.split_once('=').unwrap();
                    image.environment.insert(name.to_owned(), value.to_owned());
                }
                "HEALTHCHECK" => image.health_check = words(argument.split_once("CMD ").unwrap().1),
                "ENTRYPOINT" => image.entry_point = words(&argument),
                "CMD" => image.command = words(&argument),
                "STOPSIGNAL" => assert_eq!(argument, "SIGTERM"),
                "EXPOSE" => {}
                other => panic!("this test cannot do {other} {argument}"),
            }
        }
        Some(image)
    }

    /// The libraries that the program needs, and a folder for temporary files that is the user's.
    fn copy_base(&self) {
        let listed = Command::new("ldd").arg(env!("CARGO_BIN_EXE_gpuprism")).output().unwrap();
        for line in String::from_utf8(listed.stdout).unwrap().lines() {
            // `libc.so.6 => /lib/libc.so.6 (0x...)`, `/lib64/ld-linux.so.2 (0x...)`; the kernel's own library has no path.
            let Some(path) = line.split_whitespace().find(|word| word.starts_with('/')) else { continue };
            let name = Path::new(path).file_name().unwrap().to_string_lossy();
            assert!(BASE_LIBRARIES.iter().any(|library| name.starts_with(library)), "the base image has no {name}");
            self.copy(Path::new(path), path);
        }
        let tmp = self.root.join("tmp");
        std::fs::create_dir(&tmp).unwrap();
        std::fs::set_permissions(&tmp, PermissionsExt::from_mode(0o1777)).unwrap();
    }

    fn copy_program(&self, argument: &str) {
        let [stage, from, to] = argument.split(' ').collect::<Vec<_>>()[..] else { panic!("{argument}") };
        assert_eq!((stage, from), ("--from=build", "/src/target/release/gpuprism"));
        self.copy(Path::new(env!("CARGO_BIN_EXE_gpuprism")), to);
    }

    fn copy(&self, from: &Path, to: &str) {
        let to = self.root.join(to.trim_start_matches('/'));
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::copy(from, to).unwrap();
    }

    /// A command in the image, as its user and with its environment alone. It listens on, or asks, another port than the Dockerfile says.
    fn command(&self, words: &[String], port: u16) -> Command {
        let mut command = Command::new("chroot");
        command.arg(format!("--userspec={NONROOT}:{NONROOT}")).arg(&self.root);
        command.args(words.iter().map(|word| if word == "8080" { port.to_string() } else { word.clone() }));
        command.env_clear().envs(&self.environment);
        command
    }

    fn check_health(&self, port: u16) -> Output {
        self.command(&self.health_check, port).output().unwrap()
    }

    /// All paths of the image but those of temporary files, with their sizes.
    fn files(&self) -> Vec<(PathBuf, u64)> {
        let (mut files, mut folders) = (Vec::new(), vec![self.root.clone()]);
        while let Some(folder) = folders.pop().filter(|folder| *folder != self.root.join("tmp")) {
            for entry in std::fs::read_dir(folder).unwrap().flatten() {
                let metadata = entry.metadata().unwrap();
                files.push((entry.path(), metadata.len()));
                if metadata.is_dir() && entry.path() != self.root.join("tmp") {
                    folders.push(entry.path());
                }
            }
        }
        files.sort();
        files
    }
}

/// A port that nobody uses now.
fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn the_image_serves_without_root_writes_only_its_spool_and_ends_cleanly() {
    let folder = directory("image");
    let Some(image) = Image::build(&folder) else { return };
    let port = free_port();
    let files = image.files();
    let mut command = image.command(&[image.entry_point.clone(), image.command.clone()].concat(), port);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let mut server = Serve::of(&mut command, image.root.join("tmp"), Some("secret"));

    let status = std::fs::read_to_string(format!("/proc/{}/status", server.child.id())).unwrap();
    for line in ["Uid:", "Gid:"] {
        let ids = status.lines().find_map(|found| found.strip_prefix(line)).unwrap();
        assert!(ids.split_whitespace().all(|id| id == NONROOT), "{line} {ids}");
    }
    let health = image.check_health(port);
    assert!(health.status.success(), "{health:?}");
    write_torch(&folder, "five.json");
    let (status, answer) = server.json(&[("file", "five.json", &std::fs::read(folder.join("five.json")).unwrap())]);
    assert_eq!(status, 200, "{answer}");
    assert!(answer["report"].is_object());
    assert_eq!(server.files_in_spool(), 1, "the lock alone");

    assert_eq!(ended(&mut server.child).code(), Some(0));
    assert_eq!(std::fs::read_dir(&server.spool).unwrap().count(), 0, "the spool is gone");
    assert_eq!(image.files(), files, "nothing else was written");
    assert_eq!(image.check_health(port).status.code(), Some(1), "no server");
    std::fs::remove_dir_all(folder).unwrap();
}
