//! `stdin`: lines of JSON on standard input, until it ends.

use super::{Running, Source};
use crate::args::Args;
use crate::error::SourceError;
use crate::feed::sink::Sink;
use crate::line::LONGEST;
use crate::reject::Reject;
use hotcc_abi::radio::SOURCE_STDIN;
use std::io::{self, BufRead, Read};
use tokio::sync::oneshot;

#[derive(Debug)]
pub(super) struct StdinSource;

impl StdinSource {
    pub(super) fn parse(args: Args<'_>) -> Result<Self, String> {
        if args.main("").is_ok() {
            return Err("`stdin` takes no arguments".to_owned());
        }
        args.done().map(|()| Self)
    }
}

impl Source for StdinSource {
    fn kind(&self) -> u8 {
        SOURCE_STDIN
    }

    fn run(self: Box<Self>, sink: Sink) -> Running {
        let (ended, end) = oneshot::channel();
        // Runs on its own thread, which is not joined: a read from a terminal cannot be cancelled.
        std::thread::spawn(move || ended.send(read(&sink)));
        Box::pin(async move { end.await.unwrap_or(Ok(())) })
    }
}

/// Reads until the end. An input without a single reading is an error, because it is probably the wrong input.
fn read(sink: &Sink) -> Result<(), SourceError> {
    let mut input = io::stdin().lock();
    let mut line = Vec::new();
    let (mut number, mut has_reading) = (0_u64, false);
    let mut first_wrong = None;
    let failed = |e: io::Error| SourceError(format!("cannot read standard input: {e}"));
    loop {
        line.clear();
        // A line that is too long is read in pieces, none of which is a valid line.
        if (&mut input).take(LONGEST as u64 + 1).read_until(b'\n', &mut line).map_err(failed)? == 0 {
            break;
        }
        number += 1;
        let offered = if line.len() > LONGEST && line.last() != Some(&b'\n') {
            input.skip_until(b'\n').map_err(failed)?;
            Err((Reject::Malformed, format!("the line is longer than {LONGEST} bytes")))
        } else {
            sink.batch(|batch| super::udp::offer_line(batch, &line))
        };
        match offered {
            Ok(()) => has_reading |= !line.trim_ascii().is_empty(),
            Err((reason, why)) => {
                sink.reject(reason, &why);
                first_wrong.get_or_insert_with(|| format!("line {number}: {why}"));
            }
        }
    }
    match first_wrong.filter(|_| !has_reading) {
        Some(why) => Err(SourceError(format!("standard input has no reading; {why}"))),
        None => Ok(()),
    }
}
