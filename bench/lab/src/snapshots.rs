//! Snapshots of guests that wait for a job. A snapshot is created once, kept on disk, and resumed for each run.
//!
//! A snapshot is a file `KEY.snapshot`, where KEY is a hash of everything that the state depends on. It is written to
//! `KEY.part`, under a lock on that file, and renamed when it is complete. It contains the guest's memory, with holes
//! where nothing was written, then the state of its devices and a trailer.

use crate::image::Image;
use crate::vm::{self, Machine, Unusable};
use anyhow::{Context, Result, ensure};
use data_encoding::HEXLOWER;
use hotcc_lab_proto::job::Message;
use hotcc_testbed::netlab;
use nix::fcntl::{Flock, FlockArg};
use nix::unistd::{Whence, lseek};
use sha2::{Digest, Sha256};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Part of every key; it changes with the layout of a snapshot.
const FORMAT: &str = "hotcc snapshot 2";
/// End of the trailer. The trailer is the CRC-32 of all preceding data, the number of bytes of memory in little-endian
/// order, and these bytes.
const MAGIC: &[u8; 8] = b"hotccsn1";
const TRAILER_BYTES: u64 = 4 + 8 + MAGIC.len() as u64;
const SNAPSHOT: &str = "snapshot";
const PARTIAL: &str = "part";
const INITRAMFS: &str = "initramfs.cpio";
const CANNOT_WRITE: &str = "cannot write a snapshot";
/// Maximum number of snapshots in the directory; the least recently used are evicted. One takes about 125 MB.
const MAX_SNAPSHOTS: usize = 12;
/// Free disk space that a snapshot needs, including a reserve. QEMU cannot report that the disk is full while it writes
/// the guest's memory.
const FREE_BYTES: u64 = 400 << 20;
/// Time between two checks for a snapshot that another process is creating.
const POLL: Duration = Duration::from_millis(100);

/// A directory of snapshots.
#[derive(Debug)]
pub struct Snapshots {
    directory: PathBuf,
}

/// A guest that waits for a job: its machine, and the initramfs that it boots from, which contains no job.
#[derive(Clone, Copy, Debug)]
pub struct WaitingGuest<'a> {
    /// The machine. The snapshot does not depend on the path of its results file.
    pub machine: &'a Machine,
    /// Its initramfs.
    pub initramfs: &'a Initramfs,
}

/// An initramfs, ready to boot.
#[derive(Debug)]
pub struct Initramfs {
    bytes: Vec<u8>,
    sha256: [u8; 32],
}

impl Initramfs {
    /// Writes the image to an archive.
    pub fn of(image: &Image) -> Result<Self> {
        let mut bytes = Vec::new();
        image.write(&mut bytes)?;
        let sha256 = Sha256::digest(&bytes).into();
        Ok(Self { bytes, sha256 })
    }

    /// Returns the archive.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Snapshots {
    /// Returns this user's snapshots, in `snapshots` in the directory of everything that hotcc downloads.
    pub fn of_this_user() -> Result<Self> {
        Ok(Self::at(hotcc_kernels::cache_directory()?.join("snapshots")))
    }

    /// Returns the snapshots in a directory, which is created when necessary.
    #[must_use]
    pub fn at(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// Resumes the guest with the files of the archive `job`, and passes every message to `on_message`. If there
    /// is no snapshot, creates it first: in `scratch` if the directory cannot be used, so that the results do not depend
    /// on that. If QEMU refuses to create snapshots, boots the guest.
    pub fn run(
        &self,
        guest: WaitingGuest<'_>,
        job: &Path,
        scratch: &Path,
        say: &dyn Fn(&str),
        mut on_message: impl FnMut(&Message) -> Result<()>,
    ) -> Result<()> {
        let key = key(guest)?;
        let resume = |mut state: File, on_message: &mut dyn FnMut(&Message) -> Result<()>| {
            let devices = device_range(&mut state).context("cannot read a snapshot")?;
            state.seek(SeekFrom::Start(devices.start)).context("cannot read a snapshot")?;
            vm::resume(guest.machine, &state, job, scratch, on_message)
        };
        let usable = match self.get(&key, guest, scratch, say) {
            Ok(state) => match resume(state, &mut on_message) {
                // the guest has not run, and no message was passed on
                Err(why) if why.is::<Unusable>() => {
                    say(&format!("recreating the guest's snapshot: {why}"));
                    remove(&self.path(&key, SNAPSHOT))?;
                    self.get(&key, guest, scratch, say)
                }
                done => return done,
            },
            failed => failed,
        };
        let state = match usable {
            Err(why) if why.is::<CannotStore>() => {
                say(&format!("{why:#}; using a temporary snapshot"));
                create_temporary(guest, scratch)?
            }
            Err(why) if is_refusal(&why) => {
                say(&format!("{why:#}; booting the guest for each run"));
                return boot(guest, job, scratch, on_message);
            }
            usable => usable?,
        };
        match resume(state, &mut on_message) {
            Err(why) if why.is::<Unusable>() => {
                say(&format!("{why}; booting the guest for each run"));
                boot(guest, job, scratch, on_message)
            }
            done => done,
        }
    }

    fn path(&self, key: &str, kind: &str) -> PathBuf {
        self.directory.join(format!("{key}.{kind}"))
    }

    /// Returns an intact snapshot. Creates it if there is none.
    fn get(&self, key: &str, guest: WaitingGuest<'_>, scratch: &Path, say: &dyn Fn(&str)) -> Result<File> {
        let cannot_store = |tried: &str, path: &Path| CannotStore(format!("{tried} {}", path.display()));
        loop {
            if let Some(state) = self.open(key)? {
                return Ok(state);
            }
            let path = self.path(key, PARTIAL);
            fs::create_dir_all(&self.directory).with_context(|| cannot_store("cannot create", &self.directory))?;
            let file = File::options().read(true).write(true).create(true).truncate(false).open(&path);
            let file = file.with_context(|| cannot_store("cannot create", &path))?;
            let Some(part) = PartialSnapshot::lock(file, &path)? else { continue };
            if self.path(key, SNAPSHOT).exists() {
                continue;
            }
            say("booting a guest once, for a snapshot that later runs resume");
            part.lock.set_len(0).with_context(|| cannot_store("cannot write", &part.path))?;
            check_space(&part.lock).with_context(|| cannot_store("cannot write", &part.path))?;
            let mut state = (*part.lock).try_clone().context("cannot clone a file")?;
            match write_snapshot(&mut state, guest, scratch) {
                Err(why) if why.is::<Unusable>() && !is_refusal(&why) => {
                    return Err(why.context(cannot_store("cannot write", &part.path)));
                }
                filled => filled?,
            }
            fs::rename(&part.path, self.path(key, SNAPSHOT))
                .with_context(|| cannot_store("cannot rename", &part.path))?;
            self.evict_old(key);
            return Ok(state);
        }
    }

    /// Opens the snapshot if it is intact. Removes one that is not.
    fn open(&self, key: &str) -> Result<Option<File>> {
        let path = self.path(key, SNAPSHOT);
        let mut file = match File::options().read(true).write(true).open(&path) {
            Ok(file) => file,
            Err(why) if why.kind() == ErrorKind::NotFound => return Ok(None),
            Err(why) => return Err(why).with_context(|| CannotStore(format!("cannot open {}", path.display()))),
        };
        if is_intact(&mut file).unwrap_or(false) {
            // the least recently used snapshots are evicted first; if this fails, this one is evicted earlier
            let _ = file.set_modified(SystemTime::now());
            return Ok(Some(file));
        }
        remove(&path).with_context(|| CannotStore(format!("cannot remove {}", path.display())))?;
        Ok(None)
    }

    /// Evicts the least recently used snapshots except `key`, and removes the files of interrupted processes. A machine
    /// that was resumed from an evicted snapshot continues.
    fn evict_old(&self, key: &str) {
        let own = self.path(key, SNAPSHOT);
        let mut old: Vec<(SystemTime, PathBuf)> = Vec::new();
        for entry in fs::read_dir(&self.directory).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.extension() == Some(OsStr::new(PARTIAL)) {
                let file = File::options().write(true).open(&path);
                // removed when the value is dropped, if no other process holds the lock
                let _ = file.map(|file| PartialSnapshot::try_lock(file, path));
            } else if path.extension() == Some(OsStr::new(SNAPSHOT)) && path != own {
                let used = entry.metadata().and_then(|metadata| metadata.modified());
                old.push((used.unwrap_or(SystemTime::UNIX_EPOCH), path));
            }
        }
        old.sort();
        for (_, path) in old.iter().take((old.len() + 1).saturating_sub(MAX_SNAPSHOTS)) {
            let _ = fs::remove_file(path);
        }
    }
}

/// Boots the guest with its job. Used with clocks in real time, and if QEMU refuses to create snapshots.
pub fn boot(
    guest: WaitingGuest<'_>,
    job: &Path,
    scratch: &Path,
    on_message: impl FnMut(&Message) -> Result<()>,
) -> Result<()> {
    let initramfs = scratch.join(INITRAMFS);
    // the kernel unpacks concatenated archives
    let mut bytes = guest.initramfs.bytes().to_vec();
    bytes.extend(fs::read(job).with_context(|| format!("cannot read {}", job.display()))?);
    fs::write(&initramfs, bytes).with_context(|| format!("cannot write {}", initramfs.display()))?;
    vm::run(guest.machine, &initramfs, scratch, on_message)?;
    fs::remove_file(&initramfs).with_context(|| format!("cannot remove {}", initramfs.display()))
}

/// The directory cannot store a snapshot.
#[derive(Debug, thiserror::Error)]
#[error("cannot keep the guest's snapshot: {0}")]
struct CannotStore(String);

/// Creates a snapshot in a temporary file without a name.
fn create_temporary(guest: WaitingGuest<'_>, scratch: &Path) -> Result<File> {
    let mut state = tempfile::tempfile_in(scratch).context("cannot create a temporary snapshot")?;
    check_space(&state).with_context(|| format!("cannot write a temporary snapshot in {}", scratch.display()))?;
    write_snapshot(&mut state, guest, scratch)?;
    Ok(state)
}

/// Checks whether the file's disk has room for a snapshot.
fn check_space(file: &File) -> Result<()> {
    let disk = nix::sys::statvfs::fstatvfs(file).context("cannot find how much space is free")?;
    let free = disk.blocks_available().saturating_mul(disk.fragment_size());
    ensure!(free >= FREE_BYTES, "only {} MiB of disk space are free; {} MiB are needed", free >> 20, FREE_BYTES >> 20);
    Ok(())
}

fn is_refusal(why: &anyhow::Error) -> bool {
    why.downcast_ref::<Unusable>().is_some_and(|unusable| unusable.refused)
}

/// A snapshot that is being created. The file is removed when the value is dropped, unless it was renamed.
struct PartialSnapshot {
    lock: Flock<File>,
    path: PathBuf,
}

impl PartialSnapshot {
    /// Waits for the lock. Returns `None` if another process has removed or renamed the file meanwhile.
    fn lock(mut file: File, path: &Path) -> Result<Option<Self>> {
        loop {
            match Self::try_lock(file, path.to_owned()) {
                Ok(part) => return Ok(part),
                Err(back) => file = back,
            }
            netlab::check()?;
            std::thread::sleep(POLL);
        }
    }

    /// Tries to get the lock. Returns the file as the error if another process holds it.
    fn try_lock(file: File, path: PathBuf) -> Result<Option<Self>, File> {
        let lock = Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(file, _)| file)?;
        let inode = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
        let same = match (lock.metadata(), fs::metadata(&path)) {
            (Ok(ours), Ok(named)) => inode(ours) == inode(named),
            _ => false,
        };
        Ok(same.then_some(Self { lock, path }))
    }
}

impl Drop for PartialSnapshot {
    fn drop(&mut self) {
        // the path is free if the snapshot was completed; otherwise the file is ours, because the lock is still held
        let _ = fs::remove_file(&self.path);
    }
}

/// Boots the guest, and writes its memory, its devices' state and the trailer.
fn write_snapshot(state: &mut File, guest: WaitingGuest<'_>, scratch: &Path) -> Result<()> {
    let scratch = tempfile::tempdir_in(scratch).context("cannot create a temporary directory")?;
    let at = |name: &str| scratch.path().join(name);
    let initramfs = at(INITRAMFS);
    fs::write(&initramfs, guest.initramfs.bytes()).with_context(|| format!("cannot write {}", initramfs.display()))?;
    let results = guest.machine.results.as_ref().map(|_| at("results"));
    let memory_bytes = u64::from(guest.machine.memory_mib) << 20;
    state.set_len(memory_bytes).context("cannot write a snapshot")?;
    let machine = Machine { results, ..guest.machine.clone() };
    let devices = vm::save(&machine, &initramfs, scratch.path(), state)?;
    state.seek(SeekFrom::Start(memory_bytes)).and_then(|_| state.write_all(&devices)).context(CANNOT_WRITE)?;
    let crc = checksum(state, memory_bytes + devices.len() as u64).context(CANNOT_WRITE)?;
    let trailer = [&crc.to_le_bytes()[..], &memory_bytes.to_le_bytes(), MAGIC].concat();
    state.seek(SeekFrom::End(0)).and_then(|_| state.write_all(&trailer)).context(CANNOT_WRITE)
}

/// Returns the range of the devices' state, according to the trailer.
fn device_range(file: &mut File) -> std::io::Result<Range<u64>> {
    let end = file.seek(SeekFrom::End(-TRAILER_BYTES.cast_signed()))?;
    let mut trailer = [0; TRAILER_BYTES as usize];
    file.read_exact(&mut trailer)?;
    let [_, _, _, _, memory @ .., _, _, _, _, _, _, _, _] = trailer;
    let memory_bytes = u64::from_le_bytes(memory);
    if trailer.ends_with(MAGIC) && memory_bytes <= end {
        Ok(memory_bytes..end)
    } else {
        Err(ErrorKind::InvalidData.into())
    }
}

/// Returns the checksum of the data up to `end`. Zeros do not affect it, so it does not depend on where the file has
/// holes.
fn checksum(file: &File, end: u64) -> std::io::Result<u32> {
    const PAGE_BYTES: usize = 4096;
    let mut hasher = crc32fast::Hasher::new();
    let mut buffer = vec![0; 64 * PAGE_BYTES];
    let mut at = 0;
    // a file without holes is a single stretch of data; an error means that there are no more data
    while let Ok(data) = lseek(file, at, Whence::SeekData).map(i64::cast_unsigned)
        && data < end
    {
        let hole = lseek(file, data.cast_signed(), Whence::SeekHole)?.cast_unsigned().min(end);
        let mut from = data - data % PAGE_BYTES as u64;
        while from < hole {
            let count = buffer.len().min((end - from) as usize);
            file.read_exact_at(&mut buffer[..count], from)?;
            for page in buffer[..count].chunks(PAGE_BYTES) {
                if page.iter().any(|byte| *byte != 0) {
                    hasher.update(&from.to_le_bytes());
                    hasher.update(page);
                }
                from += page.len() as u64;
            }
        }
        at = hole.max(from).cast_signed();
    }
    Ok(hasher.finalize())
}

fn is_intact(file: &mut File) -> std::io::Result<bool> {
    let devices = device_range(file)?;
    let mut crc = [0; 4];
    file.read_exact_at(&mut crc, devices.end)?;
    Ok(u32::from_le_bytes(crc) == checksum(file, devices.end)?)
}

/// Returns a hash of everything that the state depends on, as a file name.
fn key(guest: WaitingGuest<'_>) -> Result<String> {
    let machine = guest.machine;
    let vmlinuz = &machine.kernel.vmlinuz;
    let mut hasher = Sha256::new();
    let mut add = |text: &[u8]| {
        hasher.update((text.len() as u64).to_le_bytes());
        hasher.update(text);
    };
    add(FORMAT.as_bytes());
    add(vm::qemu_version(machine.kernel.architecture())?.as_bytes());
    add(&fs::read(vmlinuz).with_context(|| format!("cannot read {}", vmlinuz.display()))?);
    add(&guest.initramfs.sha256);
    add(if machine.results.is_some() { b"results" } else { b"" });
    machine.fixed_arguments().iter().for_each(|argument| add(argument.as_bytes()));
    Ok(HEXLOWER.encode(&hasher.finalize()))
}

fn remove(path: &Path) -> std::io::Result<()> {
    match fs::remove_file(path) {
        Err(why) if why.kind() != ErrorKind::NotFound => Err(why),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a file with memory, devices and a trailer.
    fn snapshot(memory: &[u8], holes: bool) -> File {
        let mut file = tempfile::tempfile().unwrap();
        if holes {
            file.set_len(memory.len() as u64).unwrap();
            let data: Vec<usize> = (0..memory.len()).filter(|at| memory[*at] != 0).collect();
            data.iter().for_each(|at| file.write_all_at(&memory[*at..=*at], *at as u64).unwrap());
        } else {
            file.write_all(memory).unwrap();
        }
        file.seek(SeekFrom::End(0)).unwrap();
        file.write_all(b"devices").unwrap();
        let crc = checksum(&file, memory.len() as u64 + 7).unwrap();
        file.write_all(&[&crc.to_le_bytes()[..], &(memory.len() as u64).to_le_bytes(), MAGIC].concat()).unwrap();
        file
    }

    #[test]
    fn changed_bytes_are_detected_in_files_with_and_without_holes() {
        let mut memory = vec![0; 1 << 20];
        (memory[5], memory[700_000], memory[(1 << 20) - 1]) = (1, 2, 3);
        let (mut dense, mut sparse) = (snapshot(&memory, false), snapshot(&memory, true));
        let bytes = memory.len() as u64;
        assert_eq!(checksum(&dense, bytes + 7).unwrap(), checksum(&sparse, bytes + 7).unwrap());
        for file in [&mut dense, &mut sparse] {
            assert!(is_intact(file).unwrap());
            assert_eq!(device_range(file).unwrap(), bytes..bytes + 7);
            for at in [5, 6, 300_000, bytes - 1, bytes + 3, bytes + 7, bytes + 16] {
                let mut byte = [0];
                file.read_exact_at(&mut byte, at).unwrap();
                file.write_all_at(&[byte[0] ^ 1], at).unwrap();
                assert!(!is_intact(file).unwrap_or(false), "{at}");
                file.write_all_at(&byte, at).unwrap();
            }
            assert!(is_intact(file).unwrap());
            file.set_len(bytes / 2).unwrap();
            assert!(!is_intact(file).unwrap_or(false));
            file.set_len(0).unwrap();
            assert!(!is_intact(file).unwrap_or(false));
        }
    }

    #[test]
    fn the_least_recently_used_snapshots_are_evicted_and_locked_files_are_kept() {
        let scratch = tempfile::tempdir().unwrap();
        let snapshots = Snapshots::at(scratch.path().to_owned());
        for number in 0..MAX_SNAPSHOTS + 2 {
            let file = File::create(snapshots.path(&number.to_string(), SNAPSHOT)).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(number as u64)).unwrap();
        }
        let part = |key: &str| {
            let path = snapshots.path(key, PARTIAL);
            (File::create(&path).unwrap(), path)
        };
        let (left, (locked, locked_path)) = (part("left").1, part("locked"));
        let lock = PartialSnapshot::try_lock(locked, locked_path.clone()).unwrap().unwrap();
        // the oldest one is the one that was just created
        snapshots.evict_old("0");
        let kept: Vec<bool> =
            (0..MAX_SNAPSHOTS + 2).map(|n| snapshots.path(&n.to_string(), SNAPSHOT).exists()).collect();
        let expected: Vec<bool> = (0..MAX_SNAPSHOTS + 2).map(|n| !(1..=2).contains(&n)).collect();
        assert_eq!(kept, expected);
        assert!(!left.exists() && locked_path.exists());
        drop(lock);
        assert!(!locked_path.exists());
    }

    #[test]
    fn locking_a_renamed_file_returns_none() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("key.part");
        let file = File::create(&path).unwrap();
        fs::rename(&path, scratch.path().join("key.snapshot")).unwrap();
        assert!(PartialSnapshot::lock(file, &path).unwrap().is_none());
        let file = File::create(&path).unwrap();
        assert!(PartialSnapshot::lock(file, &path).unwrap().is_some());
    }
}
