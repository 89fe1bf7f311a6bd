//! `at:DEVICE[,baud=N][,period_ms=N][,qeng]`: a modem's serial port.

use super::{RETRY, Running, Source, at_replies};
use crate::args::Args;
use crate::condition::Pace;
use crate::feed::sink::Sink;
use crate::reading::{RawReading, Ue};
use crate::reject::Reject;
use hotcc_abi::radio::SOURCE_AT;
use serialport::SerialPort;
use std::io::{self, ErrorKind};
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tracing::{info, warn};

/// Maximum time for a modem's answer.
const PATIENCE: Duration = Duration::from_secs(3);
/// Maximum length of an answer; no modem sends a longer one.
const LONGEST: usize = 4096;

#[derive(Debug)]
pub(super) struct AtSource {
    device: String,
    baud: u32,
    period: Duration,
    qeng: bool,
}

impl AtSource {
    pub(super) fn parse(mut args: Args<'_>) -> Result<Self, String> {
        let source = Self {
            device: args.main("the modem's device, e.g. at:/dev/ttyUSB2,")?.to_owned(),
            baud: args.number("baud", 300..=4_000_000, 115_200)? as u32,
            period: Duration::from_millis(args.number("period_ms", 20..=60_000, 1000)? as u64),
            qeng: args.flag("qeng")?,
        };
        args.done().map(|()| source)
    }

    /// Polls the modem until the port is gone.
    fn session(&self, sink: &Sink) -> io::Result<()> {
        let builder = serialport::new(&self.device, self.baud).timeout(Duration::from_millis(100));
        let mut port = builder.open()?;
        info!("{}: opened", self.device);
        ask(&mut *port, "ATE0")?; // the answer does not matter: an echo is harmless
        let mut due = Instant::now();
        loop {
            let command = if self.qeng { "AT+QENG=\"servingcell\"" } else { "AT+CESQ" };
            let parse = if self.qeng { at_replies::qeng } else { at_replies::cesq };
            let (answer, complete) = ask(&mut *port, command)?;
            match at_replies::best(&answer, parse).filter(|_| complete) {
                Some(reading) => sink.offer(Ue::Unnamed, &RawReading { reading, ..RawReading::default() }),
                None if complete => {
                    sink.reject(Reject::Nothing, &format_args!("{command} returned {:?}", shortened(&answer)))
                }
                None => sink.reject(Reject::Malformed, &format_args!("{command} returned {:?}", shortened(&answer))),
            }
            due = (due + self.period).max(Instant::now());
            thread::sleep(due.saturating_duration_since(Instant::now()));
        }
    }
}

/// Sends a command, and reads up to its final result code; the flag is `false` if none arrived.
fn ask(port: &mut dyn SerialPort, command: &str) -> io::Result<(String, bool)> {
    port.clear(serialport::ClearBuffer::Input)?; // drop late answers to earlier commands
    write!(port, "{command}\r")?;
    port.flush()?;
    let start = Instant::now();
    let mut answer = Vec::new();
    let mut buffer = [0; 256];
    while start.elapsed() < PATIENCE && answer.len() < LONGEST {
        match port.read(&mut buffer) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(length) => answer.extend_from_slice(&buffer[..length]),
            Err(e) if e.kind() == ErrorKind::TimedOut => continue,
            Err(e) => return Err(e),
        }
        let text = String::from_utf8_lossy(&answer);
        let is_final = |line: &str| line == "OK" || line == "ERROR" || line.starts_with("+CME ERROR");
        if text.ends_with('\n') && text.lines().any(|line| is_final(line.trim())) {
            return Ok((text.into_owned(), true));
        }
    }
    Ok((String::from_utf8_lossy(&answer).into_owned(), false))
}

fn shortened(text: &str) -> String {
    text.trim().chars().take(80).collect()
}

impl Source for AtSource {
    fn kind(&self) -> u8 {
        SOURCE_AT
    }

    fn pace(&self) -> Pace {
        Pace::Expected(self.period)
    }

    fn run(self: Box<Self>, sink: Sink) -> Running {
        let (alive, gone) = oneshot::channel::<()>();
        // Runs on its own thread, because a serial port can only be read by blocking; the thread ends with the process.
        thread::spawn(move || {
            let mut logged = None;
            while !alive.is_closed() {
                if let Err(e) = self.session(&sink) {
                    let why = e.to_string();
                    if logged.as_ref() != Some(&why) {
                        warn!("{}: {why}; retrying every 0.5 s", self.device);
                        logged = Some(why);
                    }
                }
                thread::sleep(RETRY);
            }
        });
        Box::pin(async move {
            let _ = gone.await;
            Ok(())
        })
    }
}
