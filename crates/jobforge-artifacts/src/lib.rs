//! Where payloads and results live that are too large for a row.
