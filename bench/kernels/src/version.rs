//! Which of two versions of a Debian package is newer (Debian Policy 5.6.12).

use std::cmp::Ordering;

/// Compares `EPOCH:UPSTREAM-REVISION` with another.
pub(super) fn compare(a: &str, b: &str) -> Ordering {
    let ((epoch_a, upstream_a, revision_a), (epoch_b, upstream_b, revision_b)) = (split(a), split(b));
    epoch_a.cmp(&epoch_b).then_with(|| part(upstream_a, upstream_b)).then_with(|| part(revision_a, revision_b))
}

fn split(version: &str) -> (u32, &str, &str) {
    let (epoch, rest) = match version.split_once(':') {
        Some((epoch, rest)) => (epoch.parse().unwrap_or(0), rest),
        None => (0, version),
    };
    let (upstream, revision) = rest.rsplit_once('-').unwrap_or((rest, ""));
    (epoch, upstream, revision)
}

/// Text and number in turn; text by [`weight`], numbers by value.
fn part(mut a: &str, mut b: &str) -> Ordering {
    while !a.is_empty() || !b.is_empty() {
        let (text_a, text_b) = (take(&mut a, |c| !c.is_ascii_digit()), take(&mut b, |c| !c.is_ascii_digit()));
        let weights = |text: &str| text.chars().map(weight).chain([0]).collect::<Vec<_>>();
        let (number_a, number_b) = (take(&mut a, |c| c.is_ascii_digit()), take(&mut b, |c| c.is_ascii_digit()));
        let value = |number: &str| number.parse::<u128>().unwrap_or(0);
        let order = weights(text_a).cmp(&weights(text_b)).then_with(|| value(number_a).cmp(&value(number_b)));
        if order.is_ne() {
            return order;
        }
    }
    Ordering::Equal
}

/// `~` goes before the end, letters after it, everything else after letters.
fn weight(c: char) -> i32 {
    match c {
        '~' => -1,
        c if c.is_ascii_alphabetic() => c as i32,
        c => c as i32 + 256,
    }
}

fn take<'a>(text: &mut &'a str, of: impl Fn(char) -> bool) -> &'a str {
    let (head, tail) = text.split_at(text.find(|c| !of(c)).unwrap_or(text.len()));
    *text = tail;
    head
}

#[cfg(test)]
mod tests {
    use super::compare;
    use std::cmp::Ordering;

    #[test]
    fn orders_as_dpkg_does() {
        let ascending = [
            "6.1.0~rc7-1",
            "6.1.9-1",
            "6.1.140-1~bpo11+1",
            "6.1.140-1",
            "6.1.140-1+b1",
            "6.1.140-10",
            "6.12~rc1",
            "6.12",
            "6.12.9-1~bpo12+1",
            "6.12.9-1",
            "6.12.9a-1",
            "6.12.9+deb13-1",
            "7.0.1-1",
            "1:1.0",
        ];
        for (i, a) in ascending.iter().enumerate() {
            for (j, b) in ascending.iter().enumerate() {
                assert_eq!(compare(a, b), i.cmp(&j), "{a} against {b}");
            }
        }
        assert_eq!(compare("6.012-1", "6.12-01"), Ordering::Equal);
    }
}
