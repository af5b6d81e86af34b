//! Derived dedupe keys, the same as the database's.
