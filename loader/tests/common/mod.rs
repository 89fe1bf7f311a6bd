//! Helpers of the kernel tests: the real command, real sockets, and cleaning up, also after a failure.
#![allow(dead_code, reason = "each test binary uses its part")]

pub mod held_file;

use hotcc_testbed::command;
use hotcc_testbed::kernel::{KernelLock, exclusive};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use nix::sys::socket::{setsockopt, sockopt::TcpCongestion};
use serde_json::Value;
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, IntoRawFd};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The exclusive right to change the kernel's congestion controls, for one test.
pub struct KernelTest {
    _lock: KernelLock,
    names: Vec<String>,
    /// Directory for files of the test.
    pub dir: tempfile::TempDir,
}

/// Begins a test; returns `None`, after printing the reason, if the test cannot run.
pub fn kernel_test(name: &str, cc_names: &[&str]) -> Option<KernelTest> {
    let test = KernelTest {
        _lock: exclusive(name)?,
        names: cc_names.iter().map(|&n| n.to_owned()).collect(),
        dir: tempfile::tempdir().unwrap(),
    };
    test.unload_all();
    Some(test)
}

impl KernelTest {
    fn unload_all(&self) {
        for name in &self.names {
            // fails if it is not loaded, which is the usual case
            let _ = hotcc(&["unload", name]);
        }
    }

    /// Writes one of the test objects to a file, and returns its path.
    pub fn object(&self, name: &str) -> String {
        let object = hotcc_bpf::TEST_OBJECTS.iter().chain(hotcc_bpf::PROGS).find(|o| o.name == name).unwrap();
        let path = self.dir.path().join(format!("{name}.bpf.o"));
        std::fs::write(&path, object.bytes).unwrap();
        path.display().to_string()
    }

    /// Writes a file, and returns its path.
    pub fn file(&self, name: &str, content: &[u8]) -> String {
        let path = self.dir.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.display().to_string()
    }
}

impl Drop for KernelTest {
    fn drop(&mut self) {
        self.unload_all();
    }
}

pub fn hotcc_path() -> &'static str {
    env!("CARGO_BIN_EXE_hotcc")
}

/// Runs the command.
pub fn hotcc(arguments: &[&str]) -> Output {
    Command::new(hotcc_path()).args(arguments).output().unwrap()
}

/// Runs the command, which must succeed, and returns its output.
pub fn ok(arguments: &[&str]) -> String {
    command::succeed(Command::new(hotcc_path()).args(arguments))
}

/// Runs the command, which must fail with this exit code, and returns its message.
pub fn fails(code: i32, arguments: &[&str]) -> String {
    command::failed(code, &hotcc(arguments))
}

pub fn json(arguments: &[&str]) -> Value {
    command::json(Command::new(hotcc_path()).args(arguments))
}

/// Returns the entry of `hotcc status --json` for a congestion control that hotcc loaded.
pub fn status_of(name: &str) -> Option<Value> {
    let status = json(&["status", "--json"]);
    status["algorithms"].as_array().unwrap().iter().find(|a| a["name"] == name).cloned()
}

pub fn registered(name: &str) -> bool {
    hotcc::sysctl::is_registered(name).unwrap()
}

/// Returns the paths of everything pinned for a congestion control.
pub fn pins_of(name: &str) -> Vec<PathBuf> {
    pins_below(&hotcc_abi::pins::algo_dir(name))
}

/// Returns a directory and everything below it, if it exists.
pub fn pins_below(dir: &Path) -> Vec<PathBuf> {
    fn walk(dir: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            found.push(entry.path());
            walk(&entry.path(), found);
        }
    }
    let mut found = Vec::new();
    if dir.exists() {
        found.push(dir.to_owned());
        walk(dir, &mut found);
    }
    found
}

/// Writes a socket's value in a socket storage map that `hotcc load` pinned.
pub fn write_storage<T: bytemuck::Pod>(map: &str, socket: &impl AsFd, value: &T) {
    let map = MapHandle::from_pinned_path(hotcc_abi::pins::shared(map).unwrap()).unwrap();
    map.update(&socket.as_fd().as_raw_fd().to_ne_bytes(), bytemuck::bytes_of(value), MapFlags::ANY).unwrap();
}

/// A connection over loopback whose client side sends under a congestion control.
pub struct Connection {
    pub client: TcpStream,
    pub server: TcpStream,
}

impl Connection {
    pub fn new(cc: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        Self::to(&listener, Some(cc))
    }

    pub fn to(listener: &TcpListener, cc: Option<&str>) -> Self {
        use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, connect, socket};
        let fd = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
        if let Some(cc) = cc {
            setsockopt(&fd, TcpCongestion, &OsString::from(cc)).unwrap_or_else(|e| panic!("{cc}: {e}"));
        }
        let SocketAddr::V4(address) = listener.local_addr().unwrap() else { panic!("not IPv4: {listener:?}") };
        connect(fd.as_raw_fd(), &SockaddrIn::from(address)).unwrap();
        // SAFETY: the descriptor was just created, and its ownership moves here.
        let client = unsafe { TcpStream::from_raw_fd(fd.into_raw_fd()) };
        let (server, _) = listener.accept().unwrap();
        Self { client, server }
    }

    /// Sends this many bytes, and waits until the other side has received them all.
    pub fn send(&mut self, bytes: usize) {
        let mut server = self.server.try_clone().unwrap();
        let reader = std::thread::spawn(move || {
            let mut buffer = vec![0u8; 1 << 16];
            let mut left = bytes;
            while left > 0 {
                let n = server.read(&mut buffer).unwrap();
                assert!(n > 0, "connection ended with {left} bytes to go");
                left -= n;
            }
        });
        let chunk = vec![7u8; 1 << 16];
        let mut left = bytes;
        while left > 0 {
            let n = left.min(chunk.len());
            self.client.write_all(&chunk[..n]).unwrap();
            left -= n;
        }
        reader.join().unwrap();
    }

    pub fn cc(&self) -> String {
        cc_of(&self.client)
    }
}

pub fn cc_of(socket: &impl AsFd) -> String {
    let name = nix::sys::socket::getsockopt(&socket.as_fd(), TcpCongestion).unwrap();
    name.to_string_lossy().trim_end_matches('\0').to_owned()
}

/// A network namespace that is removed when the value is dropped.
pub struct NetNs(&'static str);

/// Rate of [`NetNs::with_slow_loopback`].
pub const SLOW_LOOPBACK_BYTES_PER_S: usize = 2_000_000;

impl NetNs {
    pub fn new(name: &'static str) -> Self {
        let _ = Command::new("ip").args(["netns", "del", name]).output();
        let run = |args: &[&str]| assert!(Command::new("ip").args(args).status().unwrap().success());
        run(&["netns", "add", name]);
        run(&["-n", name, "link", "set", "lo", "up"]);
        Self(name)
    }

    /// Creates a namespace whose loopback has a rate, and packets of at most 1500 bytes.
    pub fn with_slow_loopback(name: &'static str) -> Self {
        let ns = Self::new(name);
        ns.sh("ip link set lo mtu 1500; tc qdisc add dev lo root tbf rate 16mbit burst 5kb limit 100kb");
        ns
    }

    /// Runs `work` on a thread in the namespace.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let ns = File::open(Path::new("/run/netns").join(self.0)).unwrap();
        std::thread::scope(|scope| {
            let inside = scope.spawn(|| {
                nix::sched::setns(&ns, nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
                work()
            });
            inside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    pub fn sh(&self, script: &str) -> String {
        let output = Command::new("ip").args(["netns", "exec", self.0, "sh", "-c", script]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }
}

impl Drop for NetNs {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", self.0]).output();
    }
}
