//! A clean Debian 12 that boots systemd in a virtual machine, and runs a script.

use cpio::newc::{Builder, trailer};
use hotcc_kernels::Kernel;
use hotcc_testbed::command::succeed;
use hotcc_testbed::debian;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

const UNIT: &str = "[Unit]\nAfter=multi-user.target\n[Service]\nType=oneshot\nExecStart=/script.sh\n[Install]\nWantedBy=graphical.target\n";

/// Unpacks a clean Debian 12 that has these packages, of which one is systemd-sysv. Returns its root.
pub fn unpack(packages: &str, scratch: &Path) -> PathBuf {
    let root = scratch.join("root");
    debian::unpack("bookworm", packages, &root);
    for needless in ["usr/share/doc", "usr/share/locale", "usr/share/man", "var/cache/apt"] {
        fs::remove_dir_all(root.join(needless)).unwrap();
    }
    root
}

/// Boots systemd with this root file system, and runs the script after all units have started. Returns what the console
/// showed until the script switched the machine off.
pub fn boot(root: &Path, script: &str, kernel: &Kernel, scratch: &Path) -> String {
    fs::write(root.join("script.sh"), script).unwrap();
    succeed(Command::new("chmod").arg("755").arg(root.join("script.sh")));
    fs::write(root.join("etc/systemd/system/script.service"), UNIT).unwrap();
    let wants = root.join("etc/systemd/system/graphical.target.wants");
    fs::create_dir_all(&wants).unwrap();
    symlink("../script.service", wants.join("script.service")).unwrap();
    symlink("lib/systemd/systemd", root.join("init")).unwrap();

    let (initramfs, console) = (scratch.join("initramfs"), scratch.join("console"));
    write_initramfs(root, &initramfs);
    let mut qemu = Command::new("timeout");
    qemu.args(["600", "qemu-system-x86_64", "-accel", "tcg", "-cpu", "max,-cx16", "-m", "2048"]);
    qemu.args(["-nodefaults", "-display", "none", "-no-reboot", "-append"]);
    qemu.arg("console=ttyS0 quiet panic=-1 systemd.show_status=0 systemd.mask=getty.target");
    qemu.arg("-serial").arg(format!("file:{}", console.display()));
    qemu.arg("-kernel").arg(&kernel.vmlinuz).arg("-initrd").arg(&initramfs);
    succeed(&mut qemu);
    let said = fs::read_to_string(console).unwrap().replace('\r', "");
    println!("{said}");
    said
}

/// Writes the initramfs of a whole directory.
fn write_initramfs(root: &Path, file: &Path) {
    let mut out = BufWriter::new(File::create(file).unwrap());
    let (mut directories, mut inode) = (vec![root.to_owned()], 0);
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
            let metadata = entry.symlink_metadata().unwrap();
            let kind = metadata.file_type();
            let content = if kind.is_symlink() {
                entry.read_link().unwrap().as_os_str().as_bytes().to_owned()
            } else if kind.is_file() {
                fs::read(&entry).unwrap()
            } else {
                Vec::new()
            };
            inode += 1;
            let name = entry.strip_prefix(root).unwrap().to_str().unwrap();
            let mut builder = Builder::new(name).ino(inode).mode(metadata.mode()).nlink(1);
            builder = builder.uid(metadata.uid()).gid(metadata.gid());
            if kind.is_char_device() {
                let device = metadata.rdev();
                builder = builder.rdev_major(nix::sys::stat::major(device) as u32);
                builder = builder.rdev_minor(nix::sys::stat::minor(device) as u32);
            }
            let mut writer = builder.write(&mut out, u32::try_from(content.len()).unwrap());
            writer.write_all(&content).unwrap();
            writer.finish().unwrap();
            if kind.is_dir() {
                directories.push(entry);
            }
        }
    }
    trailer(&mut out).unwrap();
    out.flush().unwrap();
}
