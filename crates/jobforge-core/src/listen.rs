//! Notifications.
