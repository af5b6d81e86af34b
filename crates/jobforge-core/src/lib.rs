//! Placeholder of the crate's head; replaced by its first module.
