//! A canary in the guest: `hotcc canary` compares connections that serve downloads.

use anyhow::{Context, Result};
use hotcc_lab_proto::job::{CANARY_SERVER, Canary};
use hotcc_lab_proto::splitmix;
use std::io::{Read, Write, copy, repeat, sink};
use std::net::{TcpListener, TcpStream};
use std::ops::Range;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::scope;

/// Downloads at the same time.
const WORKERS: u64 = 24;
/// Sizes of downloads, bytes.
const SIZES: Range<u64> = 300_000..600_000;

/// Runs a canary beside downloads. Returns what it wrote to stdout, whatever its exit code.
pub fn run(canary: &Canary) -> Result<String> {
    let Canary { words, port, seed } = canary;
    let (program, arguments) = words.split_first().context("an empty command")?;
    // else connections of one cohort begin with what the route remembers of the other's
    std::fs::write("/proc/sys/net/ipv4/tcp_no_metrics_save", "1").context("cannot set tcp_no_metrics_save")?;
    let listener = TcpListener::bind((CANARY_SERVER, *port)).context("cannot listen")?;
    let stop = AtomicBool::new(false);
    let output = scope(|scope| {
        for worker in 0..WORKERS {
            let (listener, stop, mut sizes) = (&listener, &stop, Sizes(seed * WORKERS + worker));
            scope.spawn(move || while serve(listener) {});
            scope.spawn(move || while download(*port, if stop.load(Ordering::Relaxed) { 0 } else { sizes.next() }) {});
        }
        let output = Command::new(program).args(arguments).output();
        stop.store(true, Ordering::Relaxed);
        output
    })
    .with_context(|| format!("cannot run {program}"))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(if said.is_empty() { String::from_utf8_lossy(&output.stderr).into_owned() } else { said })
}

/// Serves one download. Returns false if its size is 0.
fn serve(listener: &TcpListener) -> bool {
    let Ok((mut stream, _)) = listener.accept() else { return true };
    let mut size = [0; 8];
    if stream.read_exact(&mut size).is_err() {
        return true;
    }
    let size = u64::from_be_bytes(size);
    // a client that goes away fails only its own download
    let _ = copy(&mut repeat(7).take(size), &mut stream);
    size != 0
}

/// Requests as many bytes and reads them. Returns false if these are 0.
fn download(port: u16, size: u64) -> bool {
    let stream = TcpStream::connect((CANARY_SERVER, port));
    let done = stream.and_then(|mut stream| {
        stream.write_all(&size.to_be_bytes())?;
        copy(&mut stream, &mut sink())
    });
    size != 0 || done.is_err()
}

/// Random sizes.
struct Sizes(u64);

impl Sizes {
    fn next(&mut self) -> u64 {
        SIZES.start + splitmix::next(&mut self.0) % (SIZES.end - SIZES.start)
    }
}
