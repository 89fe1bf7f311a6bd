//! The file of a trace: CSV or Parquet.

use super::record::Row;
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::record::RecordWriter;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

/// Rows of a row group, the unit in which Parquet is written.
const GROUP_ROWS: usize = 65_536;

/// Format of a trace's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Comma-separated values, with the names of the columns in the first line.
    Csv,
    /// Apache Parquet.
    Parquet,
}

impl Format {
    /// Returns the format that the extension of a file's name means.
    #[must_use]
    pub fn of(file: &Path) -> Option<Self> {
        match file.extension()?.to_str()? {
            "csv" => Some(Self::Csv),
            "parquet" => Some(Self::Parquet),
            _ => None,
        }
    }
}

type Sink = Box<dyn Write + Send>;

/// An open file.
pub(super) enum Output {
    Csv(csv::Writer<Sink>),
    Parquet { writer: SerializedFileWriter<Sink>, group: Vec<Row> },
}

impl Output {
    pub(super) fn new(format: Format, sink: Sink) -> io::Result<Self> {
        let schema = (&[] as &[Row]).schema().map_err(from_parquet)?;
        Ok(match format {
            Format::Csv => {
                // written here, so that the file of a trace without ACKs has them, too
                let mut writer = csv::WriterBuilder::new().has_headers(false).from_writer(sink);
                writer.write_record(schema.get_fields().iter().map(|column| column.name()))?;
                Self::Csv(writer)
            }
            Format::Parquet => {
                let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
                let writer = SerializedFileWriter::new(sink, schema, Arc::new(properties)).map_err(from_parquet)?;
                Self::Parquet { writer, group: Vec::new() }
            }
        })
    }

    pub(super) fn add(&mut self, row: Row) -> io::Result<()> {
        match self {
            Self::Csv(writer) => writer.serialize(row).map_err(io::Error::from),
            Self::Parquet { writer, group } => {
                group.push(row);
                if group.len() < GROUP_ROWS { Ok(()) } else { write_group(writer, group) }
            }
        }
    }

    /// Writes what can be read before the end of the trace: with CSV everything, with Parquet nothing.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Csv(writer) => writer.flush(),
            Self::Parquet { .. } => Ok(()),
        }
    }

    pub(super) fn finish(self) -> io::Result<()> {
        match self {
            Self::Csv(mut writer) => writer.flush(),
            Self::Parquet { mut writer, mut group } => {
                write_group(&mut writer, &mut group)?;
                writer.finish().map_err(from_parquet)?;
                writer.inner_mut().flush()
            }
        }
    }
}

fn write_group(writer: &mut SerializedFileWriter<Sink>, group: &mut Vec<Row>) -> io::Result<()> {
    if group.is_empty() {
        return Ok(());
    }
    let mut rows = writer.next_row_group().map_err(from_parquet)?;
    group.as_slice().write_to_row_group(&mut rows).map_err(from_parquet)?;
    rows.close().map_err(from_parquet)?;
    group.clear();
    Ok(())
}

fn from_parquet(error: ParquetError) -> io::Error {
    io::Error::other(error)
}
