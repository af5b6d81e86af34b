//! Items from many callers in batches, one batch under way at a time as long as it is answered soon: what a batch costs
//! whatever its size is then paid for the most items.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, Semaphore, SemaphorePermit, mpsc, oneshot};
use tokio::time::timeout;

use crate::problem::Problem;

/// What a batch may take beside its calls.
const SPARE: Duration = Duration::from_secs(2);
/// How long a batch waits for the one before it. One that takes longer is held up by something: the next goes beside it.
const SOON: Duration = Duration::from_millis(5);

/// Writes a batch. The answers come in the items' order.
pub(crate) trait Write: Send + Sync + 'static {
    type Item: Send + 'static;
    type Answer: Send + 'static;

    fn write(
        &self,
        items: Vec<Self::Item>,
    ) -> impl Future<Output = Vec<Result<Self::Answer, Problem>>> + Send;
}

type Waiting<W> = (<W as Write>::Item, oneshot::Sender<Result<<W as Write>::Answer, Problem>>);

/// Where callers put their items.
pub(crate) struct Lanes<W: Write> {
    sender: mpsc::Sender<Waiting<W>>,
}

impl<W: Write> Lanes<W> {
    /// So many writers, each taking what waits when it is free, at most `most` items. Four batches may wait; then
    /// callers do. A batch that is not written in twice the time of a call, for which connections had to be waited for, too,
    /// is given up, and the lane goes on.
    pub(crate) fn start(writer: W, lanes: usize, most: usize, call_timeout: Duration) -> Lanes<W> {
        let writer = Arc::new(writer);
        let (sender, receiver) = mpsc::channel(most * 4);
        // Single items gain nothing by waiting for each other.
        let ahead = Semaphore::new(if most == 1 { lanes } else { 1 });
        let source = Arc::new(Source { receiver: Mutex::new(receiver), ahead, most });
        for _ in 0..lanes {
            tokio::spawn(run(writer.clone(), source.clone(), call_timeout * 2 + SPARE));
        }
        Lanes { sender }
    }

    /// Hands an item in and waits for its answer.
    pub(crate) async fn put(&self, item: W::Item) -> Result<W::Answer, Problem> {
        let gone = || Problem::unavailable("the server stops");
        let place = self.sender.reserve().await.map_err(|_| gone())?;
        let (answer, answered) = oneshot::channel();
        place.send((item, answer));
        answered.await.unwrap_or_else(|_| Err(gone()))
    }
}

/// Where batches come from.
struct Source<W: Write> {
    receiver: Mutex<mpsc::Receiver<Waiting<W>>>,
    /// Held by the batch that is under way.
    ahead: Semaphore,
    most: usize,
}

impl<W: Write> Source<W> {
    /// The next batch, of all that came until it may go; none when there are no more callers.
    async fn gather(&self) -> Option<(Vec<Waiting<W>>, Option<SemaphorePermit<'_>>)> {
        let mut receiver = self.receiver.lock().await;
        let mut batch = Vec::new();
        if receiver.recv_many(&mut batch, self.most).await == 0 {
            return None;
        }
        // What comes meanwhile stays where it is: taken one by one, each would wake this task for nothing.
        let turn = timeout(SOON, self.ahead.acquire()).await.ok().and_then(Result::ok);
        while batch.len() < self.most
            && let Ok(one) = receiver.try_recv()
        {
            batch.push(one);
        }
        Some((batch, turn))
    }
}

/// One lane: whoever holds the receiver gathers, the others write meanwhile.
async fn run<W: Write>(writer: Arc<W>, source: Arc<Source<W>>, patience: Duration) {
    while let Some((batch, turn)) = source.gather().await {
        let (items, callers): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
        let mut answers = timeout(patience, writer.write(items)).await.unwrap_or_default().into_iter();
        drop(turn);
        for caller in callers {
            let answer = answers.next().unwrap_or_else(|| {
                Err(Problem::late("the database did not answer in time: what was asked may have been done"))
            });
            // A caller that went away needs no answer.
            let _ = caller.send(answer);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    /// Tells the sizes of its batches, and keeps the first until it is told to go on.
    struct Slow {
        begun: mpsc::UnboundedSender<usize>,
        first: Mutex<Option<oneshot::Receiver<()>>>,
    }

    impl Write for Slow {
        type Item = u32;
        type Answer = u32;

        async fn write(&self, items: Vec<u32>) -> Vec<Result<u32, Problem>> {
            self.begun.send(items.len()).unwrap();
            let first = self.first.lock().await.take();
            if let Some(first) = first {
                first.await.unwrap();
            }
            items.into_iter().map(Ok).collect()
        }
    }

    struct Story {
        lanes: Arc<Lanes<Slow>>,
        begun: mpsc::UnboundedReceiver<usize>,
        go_on: oneshot::Sender<()>,
    }

    impl Story {
        fn begin(lanes: usize) -> Story {
            let (begun, told) = mpsc::unbounded_channel();
            let (go_on, first) = oneshot::channel();
            let writer = Slow { begun, first: Mutex::new(Some(first)) };
            let lanes = Arc::new(Lanes::start(writer, lanes, 100, Duration::from_secs(10)));
            Story { lanes, begun: told, go_on }
        }

        fn put(&self, item: u32) -> tokio::task::JoinHandle<Result<u32, Problem>> {
            let lanes = self.lanes.clone();
            tokio::spawn(async move { lanes.put(item).await })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_while_a_batch_is_under_way_is_the_next_one() {
        let mut story = Story::begin(2);
        let first = story.put(0);
        assert_eq!(story.begun.recv().await, Some(1), "one alone is written at once");
        let mut others = Vec::new();
        for item in 1..=3 {
            others.push(story.put(item));
            // Time moves on only when everybody waits: the item is in.
            sleep(SOON / 5).await;
        }
        story.go_on.send(()).unwrap();
        assert_eq!(story.begun.recv().await, Some(3), "the rest together, when the first is done");
        assert_eq!(first.await.unwrap().unwrap(), 0);
        for (item, answer) in (1..=3).zip(others) {
            assert_eq!(answer.await.unwrap().unwrap(), item);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_batch_that_is_held_up_holds_nobody_up() {
        let mut story = Story::begin(2);
        let first = story.put(0);
        assert_eq!(story.begun.recv().await, Some(1));
        let second = story.put(1);
        assert_eq!(second.await.unwrap().unwrap(), 1, "it went beside the first");
        story.go_on.send(()).unwrap();
        assert_eq!(first.await.unwrap().unwrap(), 0);
    }
}
