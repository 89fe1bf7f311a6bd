//! The position of the user, and the obstacles between user and station. The geometry is a plane: every obstacle is
//! high enough to block.

use crate::spec::{Obstacle, Shape, User};

/// A point in the plane: x and y in m.
pub(crate) type Point = [f64; 2];

/// Returns the distance between two points in m.
pub(crate) fn distance(a: Point, b: Point) -> f64 {
    let (x, y) = (b[0] - a[0], b[1] - a[1]);
    (x * x + y * y).sqrt()
}

/// The position and speed of a user at some time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Place {
    /// Position.
    pub(crate) at: Point,
    /// Distance walked so far, in m.
    pub(crate) walked_m: f64,
    /// Speed in m/s; 0 while the user stands.
    pub(crate) speed_mps: f64,
}

/// A part of a walk: either from one point to the next, or a wait at a point.
#[derive(Debug, Clone, Copy)]
struct Leg {
    start_s: f64,
    length_s: f64,
    from: Point,
    to: Point,
    walked_m: f64,
    speed_mps: f64,
}

/// A user's walk along its path.
#[derive(Debug, Clone)]
pub(crate) struct Walk {
    legs: Vec<Leg>,
}

impl Walk {
    /// Creates the walk of a user that [`super::RadioSpec::check`] accepts.
    pub(crate) fn new(user: &User) -> Self {
        let mut legs = Vec::new();
        let (mut start_s, mut walked_m) = (0.0, 0.0);
        for (i, point) in user.path.iter().enumerate() {
            let from = point.at;
            legs.push(Leg { start_s, length_s: point.wait_s, from, to: from, walked_m, speed_mps: 0.0 });
            start_s += point.wait_s;
            let Some(next) = user.path.get(i + 1) else { break };
            let length_m = distance(from, next.at);
            let length_s = if user.speed_mps > 0.0 { length_m / user.speed_mps } else { 0.0 };
            legs.push(Leg { start_s, length_s, from, to: next.at, walked_m, speed_mps: user.speed_mps });
            start_s += length_s;
            walked_m += length_m;
        }
        Self { legs }
    }

    /// Returns the place of the user `seconds` after the start.
    pub(crate) fn at(&self, seconds: f64) -> Place {
        // The last leg is the wait at the last point, which has no end.
        let index = self.legs.partition_point(|leg| leg.start_s <= seconds).max(1) - 1;
        let Some(leg) = self.legs.get(index) else {
            return Place { at: [0.0; 2], walked_m: 0.0, speed_mps: 0.0 };
        };
        let share = if leg.length_s > 0.0 { ((seconds - leg.start_s) / leg.length_s).min(1.0) } else { 0.0 };
        let along = |axis: usize| leg.from[axis] + share * (leg.to[axis] - leg.from[axis]);
        Place {
            at: [along(0), along(1)],
            walked_m: leg.walked_m + share * distance(leg.from, leg.to),
            speed_mps: leg.speed_mps,
        }
    }
}

/// Returns whether an obstacle blocks the straight line between two points. Touching counts as blocking.
pub(crate) fn blocks(obstacle: &Obstacle, a: Point, b: Point) -> bool {
    match obstacle.shape {
        Shape::Rectangle => enters_rectangle(obstacle.from, obstacle.to, a, b),
        Shape::Wall => segments_meet(obstacle.from, obstacle.to, a, b),
    }
}

/// Liang and Barsky (1984): clips the line to the rectangle's range of x, then of y. Returns whether any part of it is
/// left.
fn enters_rectangle(corner: Point, opposite: Point, a: Point, b: Point) -> bool {
    let (mut enter, mut leave) = (0.0f64, 1.0f64);
    for axis in 0..2 {
        let (low, high) = (corner[axis].min(opposite[axis]), corner[axis].max(opposite[axis]));
        let length = b[axis] - a[axis];
        if length == 0.0 {
            if a[axis] < low || a[axis] > high {
                return false;
            }
            continue;
        }
        let (first, second) = ((low - a[axis]) / length, (high - a[axis]) / length);
        enter = enter.max(first.min(second));
        leave = leave.min(first.max(second));
    }
    enter <= leave
}

fn segments_meet(c: Point, d: Point, a: Point, b: Point) -> bool {
    // On which side of the line p-q the point r is: positive on the left, negative on the right, 0 on the line.
    let side = |p: Point, q: Point, r: Point| (q[0] - p[0]) * (r[1] - p[1]) - (q[1] - p[1]) * (r[0] - p[0]);
    let (c_side, d_side) = (side(a, b, c), side(a, b, d));
    let (a_side, b_side) = (side(c, d, a), side(c, d, b));
    if c_side == 0.0 && d_side == 0.0 && a_side == 0.0 && b_side == 0.0 {
        // All points are on one line: the segments meet if their extents overlap.
        return (0..2).all(|i| c[i].min(d[i]) <= a[i].max(b[i]) && a[i].min(b[i]) <= c[i].max(d[i]));
    }
    let apart = |x: f64, y: f64| (x > 0.0 && y > 0.0) || (x < 0.0 && y < 0.0);
    !apart(c_side, d_side) && !apart(a_side, b_side)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Waypoint;

    fn obstacle(shape: Shape, from: Point, to: Point) -> Obstacle {
        Obstacle { shape, from, to, extra_loss_db: 0.0 }
    }

    #[test]
    fn walks_and_waits() {
        let path = vec![
            Waypoint { at: [0.0, 0.0], wait_s: 1.0 },
            Waypoint { at: [3.0, 4.0], wait_s: 2.0 },
            Waypoint { at: [3.0, 14.0], wait_s: 0.0 },
        ];
        let walk = Walk::new(&User { path, speed_mps: 2.5, height_m: 1.5 });
        let place = |x, y, walked_m, speed_mps| Place { at: [x, y], walked_m, speed_mps };
        assert_eq!(walk.at(0.0), place(0.0, 0.0, 0.0, 0.0));
        assert_eq!(walk.at(0.5), place(0.0, 0.0, 0.0, 0.0));
        // 5 m at 2.5 m/s: half way after 1 s.
        assert_eq!(walk.at(2.0), place(1.5, 2.0, 2.5, 2.5));
        assert_eq!(walk.at(4.0), place(3.0, 4.0, 5.0, 0.0));
        assert_eq!(walk.at(7.0), place(3.0, 9.0, 10.0, 2.5));
        assert_eq!(walk.at(1e6), place(3.0, 14.0, 15.0, 0.0));
    }

    #[test]
    fn rectangles_block() {
        let house = obstacle(Shape::Rectangle, [2.0, 3.0], [1.0, 1.0]);
        for (a, b, blocked) in [
            ([0.0, 2.0], [5.0, 2.0], true),
            ([0.0, 0.0], [5.0, 0.5], false),
            ([0.0, 0.0], [3.0, 3.0], true),
            ([1.5, 2.0], [1.6, 2.1], true),
            ([0.0, 2.0], [0.9, 2.0], false),
            ([0.0, 1.0], [5.0, 1.0], true),
            ([0.0, 5.0], [5.0, 0.0], true),
            ([1.5, 4.0], [1.5, 5.0], false),
        ] {
            assert_eq!(blocks(&house, a, b), blocked, "{a:?} {b:?}");
            assert_eq!(blocks(&house, b, a), blocked, "{b:?} {a:?}");
        }
    }

    #[test]
    fn walls_block() {
        let wall = obstacle(Shape::Wall, [0.0, 0.0], [4.0, 4.0]);
        for (a, b, blocked) in [
            ([0.0, 4.0], [4.0, 0.0], true),
            ([0.0, 4.0], [1.0, 3.0], false),
            ([5.0, 4.0], [6.0, 9.0], false),
            ([0.0, 8.0], [4.0, 4.0], true),
            ([5.0, 5.0], [6.0, 6.0], false),
            ([3.0, 3.0], [6.0, 6.0], true),
        ] {
            assert_eq!(blocks(&wall, a, b), blocked, "{a:?} {b:?}");
            assert_eq!(blocks(&wall, b, a), blocked, "{b:?} {a:?}");
        }
    }
}
