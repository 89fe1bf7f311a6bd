//! Comma-separated tables: cells by column name, and errors with their line.

use super::cells::Malformed;
use csv::{ErrorKind, Reader, ReaderBuilder, StringRecord, Trim};

/// A table that is being read.
pub(super) struct Table<'a> {
    text: &'a str,
    reader: Reader<&'a [u8]>,
    header: StringRecord,
    /// Number of bytes whose line ends were counted, and the resulting line.
    counted: (usize, u64),
}

impl<'a> Table<'a> {
    pub(super) fn new(text: &'a str) -> Result<Self, Malformed> {
        let mut reader =
            ReaderBuilder::new().trim(Trim::All).comment(Some(b'#')).has_headers(false).from_reader(text.as_bytes());
        let mut header = StringRecord::new();
        // The caller has checked that there is a header. Rows must have as many fields as the header.
        let read = reader.read_record(&mut header);
        let mut table = Self { text, reader, header, counted: (0, 1) };
        let line = table.line();
        read.map_err(|e| malformed(line, &e))?;
        Ok(table)
    }

    /// Returns the index of the column with this name.
    pub(super) fn column(&self, name: &str) -> Option<usize> {
        self.header.iter().position(|h| h == name)
    }

    /// Returns the index of the column with this name, or an error if there is none.
    pub(super) fn need(&mut self, name: &str) -> Result<usize, Malformed> {
        let line = self.line();
        self.column(name).ok_or_else(|| Malformed::new(line, format!("the header has no column {name}")))
    }

    pub(super) fn header(&self) -> &StringRecord {
        &self.header
    }

    /// Reads the next row into `row`. Returns its line, or `None` at the end.
    pub(super) fn next(&mut self, row: &mut StringRecord) -> Result<Option<u64>, Malformed> {
        let read = self.reader.read_record(row);
        let line = self.line();
        match read {
            Ok(true) => Ok(Some(line)),
            Ok(false) => Ok(None),
            Err(e) => Err(malformed(line, &e)),
        }
    }

    /// Returns the line on which the reader's last row ends. (The position of a record is the start of the comments
    /// before it.)
    pub(super) fn line(&mut self) -> u64 {
        let end = (self.reader.position().byte() as usize).saturating_sub(1).min(self.text.len());
        let (counted, line) = &mut self.counted;
        if end > *counted {
            *line += self.text.as_bytes()[*counted..end].iter().filter(|b| **b == b'\n').count() as u64;
            *counted = end;
        }
        *line
    }
}

fn malformed(line: u64, error: &csv::Error) -> Malformed {
    match error.kind() {
        ErrorKind::UnequalLengths { expected_len, len, .. } => {
            Malformed::new(line, format!("{len} fields; the header has {expected_len}"))
        }
        _ => Malformed::new(line, error.to_string()),
    }
}
