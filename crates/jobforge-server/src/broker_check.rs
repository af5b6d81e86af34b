//! The broker, as the server asks for it: whether it is there. Whoever starts the server knows how to look.

use std::fmt;
use std::pin::Pin;

/// Looks whether the broker answers. The server speaks to no broker itself: whoever starts it lends what does.
pub trait BrokerCheck: fmt::Debug + Send + Sync {
    /// Whether the broker answers now. A look takes seconds at most, and however many ask, the broker does not feel it.
    fn answers(&self) -> BrokerAnswer<'_>;
}

/// A look under way.
pub type BrokerAnswer<'a> = Pin<Box<dyn Future<Output = bool> + Send + 'a>>;
