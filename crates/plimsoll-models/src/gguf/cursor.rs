//! Reads a header byte by byte, knows where it is, and refuses to go on for ever or to keep too much.

use std::io::{self, BufReader, Read, Seek, SeekFrom};

use super::GgufError;

/// The longest header that is read. The largest published ones have some 20 MiB, most of it the vocabulary.
pub const HEADER_MOST: u64 = 512 << 20;

/// The most that is kept of a header, whatever it says.
pub const KEPT_MOST: u64 = 32 << 20;

/// A place in a file, with what may still be read and kept.
pub struct Cursor<R> {
    from: BufReader<R>,
    at: u64,
    kept: u64,
    end: u64,
}

impl<R: Read + Seek> Cursor<R> {
    /// The beginning of a file.
    pub fn new(mut from: R) -> Result<Self, GgufError> {
        let failed = |source| GgufError::Io { at: 0, field: "the file".to_string(), source };
        let end = from.seek(SeekFrom::End(0)).map_err(failed)?;
        from.seek(SeekFrom::Start(0)).map_err(failed)?;
        Ok(Cursor { from: BufReader::new(from), at: 0, kept: 0, end })
    }

    /// How many bytes were read.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// How long the file is.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// The next `N` bytes.
    pub fn bytes<const N: usize>(&mut self, field: &str) -> Result<[u8; N], GgufError> {
        let mut bytes = [0; N];
        self.fill(&mut bytes, field)?;
        Ok(bytes)
    }

    /// The next 32-bit number.
    pub fn u32(&mut self, field: &str) -> Result<u32, GgufError> {
        self.bytes(field).map(u32::from_le_bytes)
    }

    /// The next 64-bit number.
    pub fn u64(&mut self, field: &str) -> Result<u64, GgufError> {
        self.bytes(field).map(u64::from_le_bytes)
    }

    /// The next 64-bit number, which must be at most `most`.
    pub fn count(&mut self, field: &str, most: u64) -> Result<u64, GgufError> {
        let at = self.at;
        let value = self.u64(field)?;
        if value > most {
            return Err(GgufError::TooMuch { at, field: field.to_string(), value, most });
        }
        Ok(value)
    }

    /// The next text, which must be at most `most` bytes long.
    pub fn text(&mut self, field: &str, most: u64) -> Result<String, GgufError> {
        let length = self.count(&format!("the length of {field}"), most)?;
        self.text_of(length, field)
    }

    /// The next text if it is at most `most` bytes long; a longer one is passed over.
    pub fn short_text(&mut self, field: &str, most: u64) -> Result<Option<String>, GgufError> {
        let length = self.u64(field)?;
        if length > most {
            return self.skip(length, field).map(|()| None);
        }
        self.text_of(length, field).map(Some)
    }

    /// Passes over so many bytes, which must be there.
    pub fn skip(&mut self, length: u64, field: &str) -> Result<(), GgufError> {
        self.allow(length, field)?;
        let far = i64::try_from(length).map_err(|_| self.truncated(field))?;
        self.from.seek_relative(far).map_err(|source| self.failed(field, source))?;
        self.at += length;
        Ok(())
    }

    /// Counts what will be kept, and refuses when it is too much.
    pub fn keep(&mut self, length: u64, field: &str) -> Result<(), GgufError> {
        self.kept = self.kept.saturating_add(length);
        if self.kept > KEPT_MOST {
            let (at, value) = (self.at, self.kept);
            return Err(GgufError::TooMuch {
                at,
                field: field.to_string(),
                value,
                most: KEPT_MOST,
            });
        }
        Ok(())
    }

    fn text_of(&mut self, length: u64, field: &str) -> Result<String, GgufError> {
        self.keep(length, field)?;
        self.allow(length, field)?;
        let at = self.at;
        let length = usize::try_from(length).map_err(|_| self.truncated(field))?;
        let mut bytes = vec![0; length];
        self.fill(&mut bytes, field)?;
        String::from_utf8(bytes).map_err(|_| GgufError::NotText { at, field: field.to_string() })
    }

    fn fill(&mut self, bytes: &mut [u8], field: &str) -> Result<(), GgufError> {
        let length = bytes.len() as u64;
        self.allow(length, field)?;
        self.from.read_exact(bytes).map_err(|source| self.failed(field, source))?;
        self.at += length;
        Ok(())
    }

    /// Whether so many bytes are there, and still belong to a header of reasonable length.
    fn allow(&self, length: u64, field: &str) -> Result<(), GgufError> {
        if length > self.end.saturating_sub(self.at) {
            return Err(self.truncated(field));
        }
        let value = self.at.saturating_add(length);
        if value > HEADER_MOST {
            let field = format!("the header's length in {field}");
            return Err(GgufError::TooMuch { at: self.at, field, value, most: HEADER_MOST });
        }
        Ok(())
    }

    fn truncated(&self, field: &str) -> GgufError {
        GgufError::Truncated { at: self.end, field: field.to_string() }
    }

    fn failed(&self, field: &str, source: io::Error) -> GgufError {
        if source.kind() == io::ErrorKind::UnexpectedEof {
            return self.truncated(field);
        }
        GgufError::Io { at: self.at, field: field.to_string(), source }
    }
}
