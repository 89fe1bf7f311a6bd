//! How a guest gets its job after its boot. The guest stops the machine. The host may save the machine's state at this
//! point and resume it any number of times; each time, the guest finds the files of another job in QEMU's configuration
//! device.
//!
//! Both devices are x86 I/O ports that answer within the instruction that accesses them. So neither the instant at
//! which the machine stops nor the time that it takes to read the job depends on the host.

use anyhow::{Context, Result, bail, ensure};
use cpio::newc;
use hotcc_lab_proto::job::JOB_FILE;
use nix::errno::Errno;
use nix::libc;
use std::arch::asm;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};

/// QEMU's "pvpanic" device: the host pauses the machine when the guest writes [`PANICKED`]. See QEMU,
/// `docs/specs/pvpanic.rst`.
const PVPANIC: u16 = 0x505;
const PANICKED: u8 = 1;
/// QEMU's "fw_cfg" device: a selector, and a register from which the selected item is read byte by byte. See QEMU,
/// `docs/specs/fw_cfg.rst`.
const SELECTOR: u16 = 0x510;
const DATA: u16 = 0x511;
/// The item that lists the named files.
const FILE_DIRECTORY: u16 = 0x19;
/// Size of an entry of that list: size and selector, both big-endian, two bytes of padding, and a name that ends with a
/// zero.
const ENTRY_BYTES: usize = 64;

/// Stops the machine. When it runs again, creates the files of the job that the host has added meanwhile.
pub fn receive() -> Result<()> {
    allow(PVPANIC, 1)?;
    allow(SELECTOR, 2)?;
    // SAFETY: `allow` has opened the port, and the device writes no memory of this process.
    unsafe { asm!("out dx, al", in("dx") PVPANIC, in("al") PANICKED, options(nomem, nostack, preserves_flags)) };
    unpack(&file(JOB_FILE)?, Path::new("/"))
}

/// Permits this process to access `count` ports from `first`.
fn allow(first: u16, count: u16) -> Result<()> {
    // SAFETY: a system call whose arguments are all integers.
    let done = unsafe { libc::ioperm(first.into(), count.into(), 1) };
    Errno::result(done).map(drop).with_context(|| format!("cannot access the I/O ports from {first:#x}"))
}

/// Returns the content of a named file of the configuration device.
fn file(name: &str) -> Result<Vec<u8>> {
    select(FILE_DIRECTORY);
    let count = u32::from_be_bytes(read::<4>());
    for _ in 0..count {
        let bytes = read::<ENTRY_BYTES>();
        let (size, selector, found) = entry(&bytes);
        if found == name.as_bytes() {
            select(selector);
            let mut content = vec![0; size as usize];
            read_into(&mut content);
            return Ok(content);
        }
    }
    bail!("the machine has no file {name} in its configuration device")
}

fn entry(bytes: &[u8; ENTRY_BYTES]) -> (u32, u16, &[u8]) {
    let [a, b, c, d, e, f, _, _, name @ ..] = bytes;
    let length = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    (u32::from_be_bytes([*a, *b, *c, *d]), u16::from_be_bytes([*e, *f]), &name[..length])
}

/// Selects the item of the configuration device that is read next, from its beginning.
fn select(item: u16) {
    // SAFETY: `allow` has opened the ports, and the device writes no memory of this process.
    unsafe { asm!("out dx, ax", in("dx") SELECTOR, in("ax") item, options(nomem, nostack, preserves_flags)) };
}

fn read<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    read_into(&mut bytes);
    bytes
}

fn read_into(bytes: &mut [u8]) {
    // SAFETY: `allow` has opened the port; the instruction writes as many bytes as the slice has. The direction flag is
    // clear, as Rust's `asm!` guarantees.
    unsafe {
        asm!("rep insb", in("dx") DATA, inout("rdi") bytes.as_mut_ptr() => _, inout("rcx") bytes.len() => _,
            options(nostack, preserves_flags));
    }
}

/// Creates the regular files of an archive, and their directories, below `root`.
fn unpack(mut archive: &[u8], root: &Path) -> Result<()> {
    loop {
        let mut reader = newc::Reader::new(archive).context("cannot read the job's archive")?;
        let (name, mode) = (PathBuf::from(reader.entry().name()), reader.entry().mode());
        if reader.entry().is_trailer() {
            return Ok(());
        }
        let plain = name.components().all(|part| matches!(part, Component::Normal(_)));
        ensure!(plain, "the job's archive has an entry outside its root: {}", name.display());
        let path = root.join(&name);
        if mode & libc::S_IFMT == libc::S_IFDIR {
            fs::create_dir_all(&path).with_context(|| format!("cannot create {}", path.display()))?;
        } else {
            let mut content = Vec::new();
            reader.read_to_end(&mut content).with_context(|| format!("cannot read {}", name.display()))?;
            let mut options = fs::OpenOptions::new();
            let file = options.write(true).create(true).truncate(true).mode(mode & 0o777).open(&path);
            file.and_then(|mut file| file.write_all(&content))
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        archive = reader.finish()?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive(entries: &[(&str, u32, &[u8])]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (name, mode, content) in entries {
            let builder = newc::Builder::new(name).mode(*mode).nlink(1);
            let mut writer = builder.write(&mut bytes, content.len() as u32);
            writer.write_all(content).unwrap();
            writer.finish().unwrap();
        }
        newc::trailer(bytes).unwrap()
    }

    #[test]
    fn an_archive_becomes_files_with_their_modes() {
        use std::os::unix::fs::PermissionsExt;
        let root = tempfile::tempdir().unwrap();
        let entries: [(&str, u32, &[u8]); 3] =
            [("bin", 0o040_755, b""), ("bin/agent", 0o100_755, b"program"), ("job.json", 0o100_644, b"{}")];
        unpack(&archive(&entries), root.path()).unwrap();
        assert_eq!(fs::read(root.path().join("bin/agent")).unwrap(), b"program");
        assert_eq!(fs::read(root.path().join("job.json")).unwrap(), b"{}");
        let mode = fs::metadata(root.path().join("bin/agent")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o755);
    }

    #[test]
    fn an_archive_that_ends_early_or_leaves_its_root_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let whole = archive(&[("job.json", 0o100_644, b"{}")]);
        assert!(unpack(&whole[..whole.len() / 2], root.path()).is_err());
        let outside = archive(&[("../outside", 0o100_644, b"")]);
        let why = unpack(&outside, root.path()).unwrap_err().to_string();
        assert!(why.contains("outside its root: ../outside"), "{why}");
    }

    #[test]
    fn an_entry_of_the_directory_has_size_selector_and_name() {
        let mut bytes = [0; ENTRY_BYTES];
        bytes[..8].copy_from_slice(&[0, 1, 0, 2, 0, 33, 0, 0]);
        bytes[8..16].copy_from_slice(b"opt/file");
        assert_eq!(entry(&bytes), (0x1_0002, 33, &b"opt/file"[..]));
    }
}
