//! Tunables and counters: structs whose fields can also be listed by name.

/// Defines a struct of tunables with both profiles: `name = default / paper`.
macro_rules! tunables {
    ($($(#[$doc:meta])* $name:ident = $default:literal / $paper:literal;)*) => {
        /// The tunables, named as in the algorithm.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Tunables { $($(#[$doc])* pub $name: u32,)* }

        impl Tunables {
            /// Profile `default`.
            pub const DEFAULT: Self = Self { $($name: $default,)* };
            /// Profile `paper`.
            pub const PAPER: Self = Self { $($name: $paper,)* };

            /// Returns names and values.
            #[must_use]
            pub fn named(&self) -> Vec<(&'static str, u32)> {
                vec![$((stringify!($name), self.$name),)*]
            }
        }
    };
}

/// Defines a struct of counters, each with a description.
macro_rules! counters {
    ($(#[$doc:meta])* $struct:ident { $($name:ident: $what:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default)]
        pub(in crate::models) struct $struct { $(pub(in crate::models) $name: u64,)* }

        impl $struct {
            /// Returns each counter's description and value.
            pub(in crate::models) fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$(($what, self.$name),)*]
            }
        }
    };
}

pub(super) use {counters, tunables};
