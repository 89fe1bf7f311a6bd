//! Text in fields of a fixed size, padded with NULs, as the kernel and the pinned maps hold it.

/// A NUL-padded field as text.
#[must_use]
pub fn text(field: &[u8]) -> String {
    String::from_utf8_lossy(field.split(|&b| b == 0).next().unwrap_or_default()).into_owned()
}

/// A congestion control's name as the kernel has it: NUL padded to 16 bytes.
#[must_use]
pub fn padded(name: &str) -> [u8; 16] {
    let mut field = [0; 16];
    let length = name.len().min(field.len() - 1);
    field[..length].copy_from_slice(&name.as_bytes()[..length]);
    field
}
