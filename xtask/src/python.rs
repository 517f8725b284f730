//! Runs the tests of the Python package in a virtual environment: in the checks on the module as cargo builds it, otherwise on the wheel.
//! Everything is below `target`: a machine without Python needs none of it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::command::Run;
use crate::program::Program;
use crate::{project, setup};

/// What the tests need, with hashes.
const REQUIREMENTS: &str = "python/requirements-test.txt";
/// What the test of Ray needs besides. It is large, so it is installed only if [`RAY_VARIABLE`] is set.
const RAY_REQUIREMENTS: &str = "python/requirements-ray.txt";
const RAY_VARIABLE: &str = "GPUPRISM_RAY";
/// Prints why this Python cannot run the tests, or nothing. The locked packages need 3.11.
const PROBE: &str = "\
import importlib.util, sys
if sys.version_info < (3, 11): print('Python 3.11 or newer is needed')
elif not importlib.util.find_spec('ensurepip'): print('its modules venv and ensurepip are missing')
";

/// The Python that can run the tests, or the reason why there is none.
fn python() -> Result<std::result::Result<PathBuf, String>> {
    let Some(python) = setup::find_program(Path::new("python3")) else {
        return Ok(Err("no Python".to_owned()));
    };
    let problem = Run::program(&python).args(["-c", PROBE]).output()?;
    Ok(match problem.trim() {
        "" => Ok(python),
        problem => Err(format!("{}: {problem}", python.display())),
    })
}

/// Tests the module that cargo built beside the command line, without a wheel.
pub fn test_module(program: &Program) -> Result<()> {
    let Some(python) = ready()? else { return Ok(()) };
    put_module(&python, program)?;
    tests(&python, program)
}

/// Builds the wheel as it is released, and tests it. Without Python, prints why nothing is tested.
pub fn test_wheel(program: &Program) -> Result<()> {
    let Some(python) = ready()? else { return Ok(()) };
    let wheel = wheel(&python, &project::target_dir()?.join("wheels"))?;
    let package = package_folder(&python)?;
    // From a test without a wheel.
    if package.exists() {
        std::fs::remove_dir_all(&package).with_context(|| format!("cannot remove {}", package.display()))?;
    }
    pip(&python).args(["install", "--quiet", "--no-index", "--no-deps", "--force-reinstall"]).arg(wheel).run()?;
    tests(&python, program)
}

/// The Python with everything that the tests need. Without one, prints why nothing is tested.
fn ready() -> Result<Option<PathBuf>> {
    let python = match python()? {
        Ok(python) => python,
        Err(why) => {
            println!("skipped: {why}");
            return Ok(None);
        }
    };
    let target = project::target_dir()?;
    let with_ray = std::env::var_os(RAY_VARIABLE).is_some();
    let (folder, requirements): (_, &[&str]) = match with_ray {
        true => ("python-ray", &[REQUIREMENTS, RAY_REQUIREMENTS]),
        false => ("python", &[REQUIREMENTS]),
    };
    match environment(&python, &target.join(folder), requirements) {
        Ok(python) => Ok(Some(python)),
        // The packages come from a registry, which a machine may not reach.
        Err(why) => {
            println!("skipped: the packages of the tests cannot be installed: {why:#}");
            Ok(None)
        }
    }
}

/// Installs the packages of the tests, which takes long and needs no compiler.
pub fn set_up() -> Result<()> {
    ready().map(drop)
}

fn tests(python: &Path, program: &Program) -> Result<()> {
    Run::program(python)
        .args("-m pytest -q -rs -p no:cacheprovider python/tests".split(' '))
        .env("GPUPRISM_BIN", program.path("gpuprism"))
        .env("GPUPRISM_EXAMPLES", program.examples())
        .run()
}

/// The folder of the package in a virtual environment.
fn package_folder(python: &Path) -> Result<PathBuf> {
    let packages =
        Run::program(python).args(["-c", "import sysconfig; print(sysconfig.get_path('platlib'))"]).output()?;
    Ok(Path::new(packages.trim()).join("gpuprism"))
}

/// Puts the package where an installation of the wheel puts it, with the files that maturin writes.
fn put_module(python: &Path, program: &Program) -> Result<()> {
    const INIT: &str = "\
from .gpuprism import *

__doc__ = gpuprism.__doc__
if hasattr(gpuprism, \"__all__\"):
    __all__ = gpuprism.__all__
";
    let folder = package_folder(python)?;
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let module = folder.join(if cfg!(windows) { "gpuprism.pyd" } else { "gpuprism.abi3.so" });
    // A process that has loaded the old file keeps it.
    if module.exists() {
        std::fs::remove_file(&module).with_context(|| format!("cannot replace {}", module.display()))?;
    }
    copy(&program.python_module(), &module)?;
    copy(&project::root().join("python/gpuprism.pyi"), &folder.join("__init__.pyi"))?;
    std::fs::write(folder.join("__init__.py"), INIT)?;
    std::fs::write(folder.join("py.typed"), "")?;
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    std::fs::copy(from, to).with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
    Ok(())
}

/// The Python of a virtual environment with the locked packages. It is kept until they change.
fn environment(python: &Path, folder: &Path, requirements: &[&str]) -> Result<PathBuf> {
    let inside = folder.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
    let read = |name: &&str| {
        std::fs::read_to_string(project::root().join(name)).with_context(|| format!("cannot read {name}"))
    };
    let locked: String = requirements.iter().map(read).collect::<Result<_>>()?;
    let installed = folder.join("installed-requirements.txt");
    if inside.is_file() && std::fs::read_to_string(&installed).is_ok_and(|text| text == locked) {
        return Ok(inside);
    }
    println!("setup: installing the Python packages of {}", requirements.join(" and "));
    Run::program(python).args(["-m", "venv", "--clear"]).arg(folder).run()?;
    for file in requirements {
        pip(&inside).args(["install", "--quiet", "--require-hashes", "--no-deps", "--requirement", file]).run()?;
    }
    std::fs::write(&installed, locked)?;
    Ok(inside)
}

fn pip(python: &Path) -> Run {
    Run::program(python).args(["-m", "pip", "--disable-pip-version-check"])
}

/// Builds the wheel into an empty folder, so that there is only one.
fn wheel(python: &Path, folder: &Path) -> Result<PathBuf> {
    if folder.exists() {
        std::fs::remove_dir_all(folder)?;
    }
    Run::program(python)
        .args("-m maturin build --quiet --release --locked --manifest-path python/Cargo.toml --out".split(' '))
        .arg(folder)
        .run()?;
    let built = std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<PathBuf>>>()?;
    let [wheel] = built.as_slice() else { bail!("maturin wrote {} files to {}", built.len(), folder.display()) };
    Ok(wheel.clone())
}
