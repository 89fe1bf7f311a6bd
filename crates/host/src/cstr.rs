//! Fixed-size, NUL-padded text fields, as in the kernel and in hotcc's maps.

/// Returns the text of a NUL-padded field.
#[must_use]
pub fn text(field: &[u8]) -> String {
    String::from_utf8_lossy(field.split(|&b| b == 0).next().unwrap_or_default()).into_owned()
}

/// Returns a congestion control's name as the kernel stores it: at most 15 bytes, NUL-padded to 16.
#[must_use]
pub fn padded(name: &str) -> [u8; 16] {
    let mut field = [0; 16];
    let length = name.len().min(field.len() - 1);
    field[..length].copy_from_slice(&name.as_bytes()[..length]);
    field
}
