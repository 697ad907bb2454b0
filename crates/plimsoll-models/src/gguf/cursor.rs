//! Bounded reading of a header: a byte position, and limits on the bytes read and kept.
//!
//! A header is untrusted input, and each length in it is a number that the file's author chose.
//! Three checks bound the cost of any file, whatever it declares. A length is compared with the
//! rest of the file before anything is allocated for it, so a declared 2^63 bytes cost nothing.
//! No byte beyond [`MAX_HEADER_BYTES`] is read or skipped, which bounds the time. Everything that
//! stays in memory is counted by [`Cursor::reserve`] before it is read and may not exceed
//! [`MAX_KEPT_BYTES`]. Reading always ends, because each step either advances the position or
//! fails. A limit on the counts alone would not be enough: a few large counts of large strings
//! multiply to more than memory.

use std::io::{self, BufReader, Read, Seek, SeekFrom};

use super::error::GgufError;

/// The largest header that is read. The largest published ones have about 20 MiB, most of it the
/// vocabulary.
pub const MAX_HEADER_BYTES: u64 = 512 << 20;

/// The largest part of a header that is kept in memory.
pub const MAX_KEPT_BYTES: u64 = 32 << 20;

/// A position in a file, with the remaining budgets.
pub struct Cursor<R> {
    from: BufReader<R>,
    at: u64,
    kept: u64,
    file_length: u64,
}

impl<R: Read + Seek> Cursor<R> {
    /// Starts at the beginning of a file.
    pub fn new(mut from: R) -> Result<Self, GgufError> {
        let file_length = rewind_and_measure(&mut from).map_err(|source| GgufError::Io {
            at: 0,
            field: "the file".to_string(),
            source,
        })?;
        Ok(Cursor { from: BufReader::new(from), at: 0, kept: 0, file_length })
    }

    /// Returns the number of bytes read or skipped.
    pub fn position(&self) -> u64 {
        self.at
    }

    /// Returns the length of the file.
    pub fn file_length(&self) -> u64 {
        self.file_length
    }

    /// Reads `N` bytes.
    pub fn bytes<const N: usize>(&mut self, field: &str) -> Result<[u8; N], GgufError> {
        let mut bytes = [0; N];
        self.fill(&mut bytes, field)?;
        Ok(bytes)
    }

    /// Reads a 32-bit number.
    pub fn u32(&mut self, field: &str) -> Result<u32, GgufError> {
        self.bytes(field).map(u32::from_le_bytes)
    }

    /// Reads a 64-bit number.
    pub fn u64(&mut self, field: &str) -> Result<u64, GgufError> {
        self.bytes(field).map(u64::from_le_bytes)
    }

    /// Reads a 64-bit number of at most `limit`.
    pub fn count(&mut self, field: &str, limit: u64) -> Result<u64, GgufError> {
        let at = self.at;
        let value = self.u64(field)?;
        if value > limit {
            return Err(GgufError::LimitExceeded { at, field: field.to_string(), value, limit });
        }
        Ok(value)
    }

    /// Reads a text of at most `limit` bytes.
    pub fn text(&mut self, field: &str, limit: u64) -> Result<String, GgufError> {
        let length = self.count(&format!("the length of {field}"), limit)?;
        self.text_of_length(length, field)
    }

    /// Reads a text of at most `limit` bytes, or skips a longer one and returns `None`.
    pub fn short_text(&mut self, field: &str, limit: u64) -> Result<Option<String>, GgufError> {
        let length = self.u64(field)?;
        if length > limit {
            return self.skip(length, field).map(|()| None);
        }
        self.text_of_length(length, field).map(Some)
    }

    /// Skips `length` bytes, which must exist.
    pub fn skip(&mut self, length: u64, field: &str) -> Result<(), GgufError> {
        self.check_length(length, field)?;
        let distance = i64::try_from(length).map_err(|_| self.truncated(field))?;
        self.from.seek_relative(distance).map_err(|source| self.io_error(field, source))?;
        self.at += length;
        Ok(())
    }

    /// Charges `length` bytes to the memory budget.
    pub fn reserve(&mut self, length: u64, field: &str) -> Result<(), GgufError> {
        self.kept = self.kept.saturating_add(length);
        if self.kept > MAX_KEPT_BYTES {
            return Err(GgufError::LimitExceeded {
                at: self.at,
                field: format!("the memory for the header up to {field}"),
                value: self.kept,
                limit: MAX_KEPT_BYTES,
            });
        }
        Ok(())
    }

    fn text_of_length(&mut self, length: u64, field: &str) -> Result<String, GgufError> {
        self.reserve(length, field)?;
        self.check_length(length, field)?;
        let at = self.at;
        let length = usize::try_from(length).map_err(|_| self.truncated(field))?;
        let mut bytes = vec![0; length];
        self.fill(&mut bytes, field)?;
        String::from_utf8(bytes).map_err(|_| GgufError::NotUtf8 { at, field: field.to_string() })
    }

    fn fill(&mut self, bytes: &mut [u8], field: &str) -> Result<(), GgufError> {
        let length = bytes.len() as u64;
        self.check_length(length, field)?;
        self.from.read_exact(bytes).map_err(|source| self.io_error(field, source))?;
        self.at += length;
        Ok(())
    }

    /// Checks that the next `length` bytes exist and are within the header limit.
    fn check_length(&self, length: u64, field: &str) -> Result<(), GgufError> {
        if length > self.file_length.saturating_sub(self.at) {
            return Err(self.truncated(field));
        }
        let value = self.at.saturating_add(length);
        if value > MAX_HEADER_BYTES {
            return Err(GgufError::LimitExceeded {
                at: self.at,
                field: format!("the length of the header up to {field}"),
                value,
                limit: MAX_HEADER_BYTES,
            });
        }
        Ok(())
    }

    fn truncated(&self, field: &str) -> GgufError {
        GgufError::Truncated { at: self.file_length, field: field.to_string() }
    }

    fn io_error(&self, field: &str, source: io::Error) -> GgufError {
        if source.kind() == io::ErrorKind::UnexpectedEof {
            return self.truncated(field);
        }
        GgufError::Io { at: self.at, field: field.to_string(), source }
    }
}

fn rewind_and_measure(from: &mut impl Seek) -> io::Result<u64> {
    let length = from.seek(SeekFrom::End(0))?;
    from.seek(SeekFrom::Start(0))?;
    Ok(length)
}
