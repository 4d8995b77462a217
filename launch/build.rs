//! Builds the agent for `x86_64-unknown-none` and turns it into a flat image: its bytes, and
//! its size in memory.

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol, RelocationFlags};

const TARGET: &str = "x86_64-unknown-none";

fn main() -> Result<(), Box<dyn Error>> {
    let here = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let root = here.parent().ok_or("the crate lies in no workspace")?;
    for part in ["agent", "hook", "syscalls", "wire"] {
        println!("cargo::rerun-if-changed={}", root.join(part).display());
    }
    let elf = build_agent(root, &out.join("agent"))?;
    let bytes = fs::read(&elf)?;
    write_image(&bytes, &out)
}

/// Runs cargo for the agent, in a target directory of its own: the outer cargo holds the
/// lock of the usual one.
fn build_agent(root: &Path, target_dir: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let mut cargo = Command::new(env::var("CARGO")?);
    cargo
        .current_dir(root)
        .args(["build", "--release", "--package", "crossgate-agent", "--bin", "crossgate-agent"])
        .args(["--target", TARGET, "--target-dir"])
        .arg(target_dir)
        // Meant for the host's compiler, not for this target.
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("CARGO_BUILD_TARGET")
        .env_remove("RUSTC_WORKSPACE_WRAPPER");
    if env::var_os("CARGO_NET_OFFLINE").is_some() {
        cargo.arg("--offline");
    }
    let status = cargo.status()?;
    if !status.success() {
        return Err(format!(
            "cannot build the agent for {TARGET}; if the target is missing, run \
             `rustup target add {TARGET}`"
        )
        .into());
    }
    Ok(target_dir.join(TARGET).join("release/crossgate-agent"))
}

fn write_image(bytes: &[u8], out: &Path) -> Result<(), Box<dyn Error>> {
    let elf = object::File::parse(bytes)?;
    let symbol = |name: &str| -> Result<u64, Box<dyn Error>> {
        elf.symbols()
            .find(|s| s.name() == Ok(name))
            .map(|s| s.address())
            .ok_or_else(|| format!("the agent has no symbol {name}").into())
    };
    let size = symbol("IMAGE_END")?;
    let mut image = Vec::new();
    for segment in elf.segments() {
        let start = usize::try_from(segment.address())?;
        let data = segment.data()?;
        if data.is_empty() {
            continue;
        }
        image.resize(image.len().max(start + data.len()), 0);
        image[start..start + data.len()].copy_from_slice(data);
    }
    // The image relocates itself, knowing one kind of relocation and only in what it may
    // write to (agent/src/arch/x86_64/entry.rs).
    let data = symbol("IMAGE_DATA")?;
    for (at, relocation) in elf.dynamic_relocations().into_iter().flatten() {
        let relative = RelocationFlags::Elf { r_type: object::elf::R_X86_64_RELATIVE };
        if relocation.flags() != relative || at < data {
            return Err(format!("the agent needs a relocation it must not: {relocation:?}").into());
        }
    }
    let used = elf
        .sections()
        .filter(|s| matches!(s.name(), Ok(".text" | ".rodata" | ".rela.dyn" | ".data")))
        .map(|s| s.address() + s.size())
        .max()
        .unwrap_or(0);
    image.truncate(usize::try_from(used)?);
    fs::write(out.join("agent.image"), &image)?;
    fs::write(
        out.join("agent.rs"),
        format!("/// Bytes of the image in memory.\npub const SIZE: u64 = {size};\n"),
    )?;
    Ok(())
}
