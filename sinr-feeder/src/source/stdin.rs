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
        // A thread of its own, which nobody waits for: a read from a terminal cannot be given up.
        std::thread::spawn(move || ended.send(read(&sink)));
        Box::pin(async move {
            let read = end.await.unwrap_or(Ok(()));
            read.map_err(|e| SourceError(format!("cannot read standard input: {e}")))
        })
    }
}

fn read(sink: &Sink) -> io::Result<()> {
    let mut input = io::stdin().lock();
    let mut line = Vec::new();
    loop {
        line.clear();
        // What is longer than any line comes in pieces, of which none is a line.
        if (&mut input).take(LONGEST as u64 + 1).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        if line.len() > LONGEST && line.last() != Some(&b'\n') {
            input.skip_until(b'\n')?;
            sink.reject(Reject::Malformed, &format_args!("the line is longer than {LONGEST} bytes"));
            continue;
        }
        sink.batch(|batch| super::udp::take_line(batch, &line));
    }
}
