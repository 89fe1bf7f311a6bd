//! Kernels fetched from an archive that the tests create, with the failures that can happen; and one from this
//! machine's mirror.
#![allow(clippy::unwrap_used, reason = "a helper that panics fails its test, as it should")]

use data_encoding::HEXLOWER;
use hotcc_kernels::{Error, Kernel, Mirror, Progress, Result, Selector, Store, module_closure};
use hotcc_testbed::kernel::{is_root, skipped};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const RELEASE: &str = "6.1.0-9-cloud-amd64";
const SPLIT: &str = "7.3.4+deb13-cloud-amd64";

fn run(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn write(path: &Path, content: impl AsRef<[u8]>) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

fn sha256(content: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::digest(content))
}

/// An archive with one kernel in bookworm and one in trixie-backports, signed with its own key.
struct Archive {
    directory: TempDir,
}

impl Drop for Archive {
    fn drop(&mut self) {
        // gpg leaves an agent running
        let _ = Command::new("gpgconf").arg("--homedir").arg(self.path("gpg")).args(["--kill", "all"]).status();
    }
}

impl Archive {
    /// Creates the archive. Returns `None`, and reports the test as skipped, if tools for that are missing.
    fn new(test: &str) -> Option<Self> {
        for tool in ["gpg", "apt-get", "dpkg-deb", "xz", "zstd", "cc"] {
            if Command::new(tool).arg("--version").output().is_err() {
                skipped(test, format_args!("needs {tool}"));
                return None;
            }
        }
        let archive = Self { directory: tempfile::tempdir().unwrap() };
        archive.new_key("gpg");
        run(archive.gpg("gpg").arg("--output").arg(archive.path("keys.gpg")).arg("--export"));

        let modules = archive.path("modules");
        write(&modules.join("kernel/net/sched/sch_netem.ko"), "");
        for file in ["kernel/net/sched/sch_netem.ko", "kernel/fs/xfs/xfs.ko", "kernel/drivers/net/veth.ko"] {
            fs::create_dir_all(modules.join(file).parent().unwrap()).unwrap();
            run(Command::new("cc").args(["-c", "-x", "c", "/dev/null", "-o"]).arg(modules.join(file)));
        }
        run(Command::new("xz").arg(modules.join("kernel/net/sched/sch_netem.ko")));
        run(Command::new("zstd").args(["-q", "--rm"]).arg(modules.join("kernel/drivers/net/veth.ko")));

        let image = archive.path("image");
        write(&image.join(format!("boot/vmlinuz-{RELEASE}")), "kernel");
        write(&image.join(format!("boot/config-{RELEASE}")), "CONFIG_NET=y\n");
        copy(&modules, &image.join(format!("lib/modules/{RELEASE}")));
        write(&image.join(format!("lib/modules/{RELEASE}/modules.builtin")), "kernel/net/ipv4/tcp_cubic.ko\n");
        let entry = archive.package(&format!("linux-image-{RELEASE}"), "6.1.9-1", "kmod", &image);
        archive.publish("bookworm", &entry);

        let [base, binary, parts] = ["base", "binary", "parts"].map(|name| archive.path(name));
        let inside = |part: &Path| part.join(format!("usr/lib/modules/{SPLIT}"));
        write(&inside(&base).join("config"), "CONFIG_NET=y\n");
        write(&inside(&base).join("modules.builtin"), "kernel/net/ipv4/tcp_cubic.ko\n");
        write(&inside(&binary).join("vmlinuz"), "newer kernel");
        copy(&modules, &inside(&parts));
        let needs = ["base", "binary", "modules"].map(|part| format!("linux-{part}-{SPLIT} (= 7.3.4-1)")).join(", ");
        let entries = [
            archive.package(&format!("linux-base-{SPLIT}"), "7.3.4-1", "kmod", &base),
            archive.package(&format!("linux-binary-{SPLIT}"), "7.3.4-1", "kmod", &binary),
            archive.package(&format!("linux-modules-{SPLIT}"), "7.3.4-1", "kmod", &parts),
            archive.package(&format!("linux-image-{SPLIT}"), "7.3.4-1", &needs, &archive.path("empty")),
        ];
        archive.publish("trixie-backports", &entries.join("\n"));
        Some(archive)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn gpg(&self, home: &str) -> Command {
        let mut gpg = Command::new("gpg");
        gpg.args(["--batch", "--quiet", "--pinentry-mode", "loopback", "--passphrase", "", "--homedir"]);
        gpg.arg(self.path(home));
        gpg
    }

    fn new_key(&self, home: &str) {
        write(&self.path(home).join("gpg.conf"), "");
        run(Command::new("chmod").arg("700").arg(self.path(home)));
        run(self.gpg(home).args(["--quick-gen-key", "archive@example.org", "ed25519", "sign"]));
    }

    /// Builds a package of `tree`, and returns its paragraph for the index.
    fn package(&self, name: &str, version: &str, depends: &str, tree: &Path) -> String {
        let control = format!(
            "Package: {name}\nVersion: {version}\nArchitecture: amd64\nMaintainer: nobody <nobody@example.org>\n\
             Depends: {depends}\nDescription: a kernel\n"
        );
        write(&tree.join("DEBIAN/control"), &control);
        let path = format!("pool/{name}.deb");
        fs::create_dir_all(self.path("debian/pool")).unwrap();
        run(Command::new("dpkg-deb")
            .args(["--root-owner-group", "--build"])
            .arg(tree)
            .arg(self.path("debian").join(&path)));
        let file = fs::read(self.path("debian").join(&path)).unwrap();
        format!("{control}Filename: {path}\nSize: {}\nSHA256: {}\n", file.len(), sha256(&file))
    }

    fn publish(&self, suite: &str, packages: &str) {
        let dists = self.path("debian/dists").join(suite);
        write(&dists.join("main/binary-amd64/Packages"), packages);
        let date = run(Command::new("date").args(["--utc", "--rfc-email"]));
        let release = format!(
            "Origin: Debian\nSuite: {suite}\nCodename: {suite}\nDate: {}\nArchitectures: amd64\nComponents: main\n\
             SHA256:\n {} {} main/binary-amd64/Packages\n",
            date.trim().replace("+0000", "UTC"),
            sha256(packages.as_bytes()),
            packages.len()
        );
        write(&dists.join("Release"), release);
        self.sign(suite, "gpg");
    }

    fn sign(&self, suite: &str, home: &str) {
        let dists = self.path("debian/dists").join(suite);
        let mut gpg = self.gpg(home);
        run(gpg.args(["--yes", "--output"]).arg(dists.join("InRelease")).arg("--clearsign").arg(dists.join("Release")));
    }

    fn store(&self) -> Store {
        let uri = format!("copy:{}", self.path("debian").display());
        let signed_by = Some(self.path("keys.gpg").display().to_string());
        Store::at(&self.path("cache"), Some(Mirror { uri, signed_by })).unwrap()
    }

    /// Returns the names in the cache, except the lock and the indexes.
    fn cached(&self) -> Vec<String> {
        let names = fs::read_dir(self.path("cache")).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
        names.retain(|name| name != ".lock" && name != ".apt");
        names.sort();
        names
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    run(Command::new("cp").arg("--recursive").arg(from).arg(to));
}

fn selector(text: &str) -> Selector {
    text.parse().unwrap()
}

fn fetch(store: &Store, text: &str) -> Result<Kernel> {
    store.fetch(&selector(text), &mut |_| {})
}

fn flip_a_bit(path: &Path) {
    let mut content = fs::read(path).unwrap();
    let middle = content.len() / 2;
    content[middle] ^= 1;
    fs::write(path, content).unwrap();
}

fn names(kernel: &Kernel, modules: &[&str]) -> Vec<String> {
    let files = module_closure(kernel, modules).unwrap();
    assert!(files.iter().all(|file| fs::read(file).unwrap().starts_with(b"\x7fELF")), "{files:?}");
    files.iter().map(|file| file.file_name().unwrap().to_string_lossy().into_owned()).collect()
}

#[test]
fn fetches_and_keeps_kernels() {
    let Some(archive) = Archive::new("fetches_and_keeps_kernels") else { return };
    let kernel = fetch(&archive.store(), "bookworm").unwrap();
    assert_eq!(kernel.release, RELEASE);
    assert_eq!(fs::read_to_string(&kernel.vmlinuz).unwrap(), "kernel");
    assert_eq!(names(&kernel, &["sch_netem", "tcp_cubic", "veth"]), ["sch_netem.ko", "veth.ko"]);
    assert!(matches!(module_closure(&kernel, &["xfs"]), Err(Error::NoModule { .. })));

    let newest = fetch(&archive.store(), "newest").unwrap();
    assert_eq!((newest.release.as_str(), newest.manifest.package.debs.len()), (SPLIT, 4));
    assert_eq!(fs::read_to_string(&newest.vmlinuz).unwrap(), "newer kernel");
    assert_eq!(fs::read_to_string(&newest.config).unwrap(), "CONFIG_NET=y\n");
    assert_eq!(names(&newest, &["veth"]), ["veth.ko"]);
    assert_eq!(archive.cached(), [RELEASE, SPLIT]);

    let listed = archive.store().list(&[selector("6.1"), selector("7.3")], &mut |_| {}).unwrap();
    let cached: Vec<_> = listed.into_iter().map(|listed| listed.cached.unwrap()).collect();
    assert_eq!(cached, [kernel.dir.clone(), newest.dir]);

    // the kernel is not downloaded again
    fs::remove_dir_all(archive.path("debian/pool")).unwrap();
    assert_eq!(fetch(&archive.store(), "6.1").unwrap(), kernel);

    // nor is the archive needed if the kernel is in the cache
    fs::remove_dir_all(archive.path("debian")).unwrap();
    let mut told = Vec::new();
    assert_eq!(archive.store().fetch(&selector("6.1"), &mut |step| told.push(step.clone())).unwrap(), kernel);
    assert!(matches!(told.last(), Some(Progress::Fallback { release, .. }) if release == RELEASE), "{told:?}");
    assert_eq!(archive.store().list(&[selector("bookworm")], &mut |_| {}).unwrap().len(), 1);
    let error = fetch(&archive.store(), "trixie").unwrap_err();
    assert!(error.is_offline(), "{error}");
    // of the supported kernels, the two that are in the cache
    assert_eq!(archive.store().list(&[], &mut |_| {}).unwrap().len(), 2);

    assert!(archive.store().clean(&mut |_| {}).unwrap() > 100);
    assert_eq!(archive.cached(), [""; 0]);
    assert_eq!(archive.store().cached(&selector("newest")), None);
}

#[test]
fn refuses_what_was_altered() {
    let Some(archive) = Archive::new("refuses_what_was_altered") else { return };
    let deb = archive.path(&format!("debian/pool/linux-image-{RELEASE}.deb"));
    flip_a_bit(&deb);
    let error = fetch(&archive.store(), "6.1").unwrap_err();
    assert!(matches!(error, Error::Untrusted { .. }), "{error}");
    assert_eq!(archive.cached(), [""; 0]);
    flip_a_bit(&deb);

    let index = archive.path("debian/dists/bookworm/main/binary-amd64/Packages");
    flip_a_bit(&index);
    fs::remove_dir_all(archive.path("cache")).unwrap();
    let error = fetch(&archive.store(), "6.1").unwrap_err();
    assert!(matches!(error, Error::Untrusted { .. }), "{error}");
    flip_a_bit(&index);

    let kernel = fetch(&archive.store(), "6.1").unwrap();
    flip_a_bit(&kernel.vmlinuz);
    assert_eq!(archive.store().cached(&selector("6.1")), None);
    assert_eq!(fetch(&archive.store(), "6.1").unwrap(), kernel);
    kernel.verify().unwrap();

    // a cached kernel does not make an index acceptable that is signed with another key
    archive.new_key("other");
    archive.sign("bookworm", "other");
    let error = fetch(&archive.store(), "6.1").unwrap_err();
    assert!(matches!(error, Error::Untrusted { .. }), "{error}");
    assert!(error.to_string().contains("debian-archive-keyring"), "{error}");
    let _ = Command::new("gpgconf").arg("--homedir").arg(archive.path("other")).args(["--kill", "all"]).status();

    fs::rename(archive.path("debian/dists/bookworm/InRelease"), archive.path("InRelease")).unwrap();
    fs::remove_dir_all(archive.path("cache/.apt")).unwrap();
    let error = fetch(&archive.store(), "6.1").unwrap_err();
    assert!(matches!(error, Error::Untrusted { .. }), "{error}");
}

#[test]
fn two_fetches_take_turns() {
    let Some(archive) = Archive::new("two_fetches_take_turns") else { return };
    // left by a killed fetch
    write(&archive.path("cache/.fetch-killed/kernel/vmlinuz"), "half a ker");
    let kernels = std::thread::scope(|scope| {
        let threads = [(); 3].map(|()| scope.spawn(|| fetch(&archive.store(), "6.1").unwrap()));
        threads.map(|thread| thread.join().unwrap())
    });
    assert!(kernels.iter().all(|kernel| kernel == &kernels[0]));
    assert_eq!(archive.cached(), [RELEASE]);
}

#[test]
fn a_full_disk_is_named_and_left_clean() {
    let test = "a_full_disk_is_named_and_left_clean";
    if !is_root(test) {
        return;
    }
    let Some(archive) = Archive::new(test) else { return };
    let filler = archive.path(&format!("image/lib/modules/{RELEASE}/kernel/filler"));
    write(&filler, vec![0; 8 << 20]);
    let entry = archive.package(&format!("linux-image-{RELEASE}"), "6.1.9-1", "kmod", &archive.path("image"));
    archive.publish("bookworm", &entry);
    let cache = archive.path("cache");
    fs::create_dir(&cache).unwrap();
    mount(Some("tmpfs"), &cache, Some("tmpfs"), MsFlags::empty(), Some("size=4m")).unwrap();
    let result = fetch(&archive.store(), "6.1");
    let left = archive.cached();
    umount2(&cache, MntFlags::MNT_DETACH).unwrap();
    assert!(matches!(result, Err(Error::Full { .. })), "{result:?}");
    assert_eq!(left, [""; 0]);
}

#[test]
fn fetches_from_the_mirror_of_this_machine() {
    let test = "fetches_from_the_mirror_of_this_machine";
    let directory = tempfile::tempdir().unwrap();
    let store = Store::at(directory.path(), None).unwrap();
    let begin = Instant::now();
    let kernel = match fetch(&store, "6.1") {
        Err(error) if error.is_offline() => {
            skipped(test, "no package index reachable");
            return;
        }
        other => other.unwrap(),
    };
    println!("{} after {:?}", kernel.release, begin.elapsed());
    assert!(kernel.release.starts_with("6.1.") && kernel.release.ends_with("-cloud-amd64"), "{}", kernel.release);
    kernel.verify().unwrap();
    // on 6.1, the lab's virtio devices are modules, and depend on other modules
    let files = names(&kernel, &["sch_netem", "veth", "tcp_bbr", "virtio_pci", "virtio_console"]);
    let place = |name: &str| files.iter().position(|file| file == name);
    assert!(place("virtio_ring.ko") < place("virtio_pci.ko") && place("virtio_ring.ko").is_some(), "{files:?}");

    // the second fetch only asks whether there is a newer kernel
    let begin = Instant::now();
    assert_eq!(fetch(&store, "6.1").unwrap(), kernel);
    assert!(begin.elapsed() < Duration::from_secs(60));
    assert_eq!(store.cached(&selector("bookworm")), Some(kernel));
}
