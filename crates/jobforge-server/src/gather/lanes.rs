//! Items from many callers in batches, each batch by one writer at a time.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::time::timeout;

use crate::problem::Problem;

/// What a batch may take beside its calls.
const SPARE: Duration = Duration::from_secs(2);

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
        let receiver = Arc::new(Mutex::new(receiver));
        for _ in 0..lanes {
            tokio::spawn(run(writer.clone(), receiver.clone(), most, call_timeout * 2 + SPARE));
        }
        Lanes { sender }
    }

    /// Hands an item in and waits for its answer.
    pub(crate) async fn put(&self, item: W::Item) -> Result<W::Answer, Problem> {
        let (answer, answered) = oneshot::channel();
        let gone = || Problem::unavailable("the server stops");
        self.sender.send((item, answer)).await.map_err(|_| gone())?;
        answered.await.unwrap_or_else(|_| Err(gone()))
    }
}

/// One lane: whoever holds the receiver gathers, the others write meanwhile.
async fn run<W: Write>(
    writer: Arc<W>,
    receiver: Arc<Mutex<mpsc::Receiver<Waiting<W>>>>,
    most: usize,
    patience: Duration,
) {
    loop {
        let mut batch = Vec::new();
        {
            let mut receiver = receiver.lock().await;
            if receiver.recv_many(&mut batch, most).await == 0 {
                return;
            }
        }
        let (items, callers): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
        let mut answers = timeout(patience, writer.write(items)).await.unwrap_or_default().into_iter();
        for caller in callers {
            let answer = answers.next().unwrap_or_else(|| {
                Err(Problem::late("the database did not answer in time: what was asked may have been done"))
            });
            // A caller that went away needs no answer.
            let _ = caller.send(answer);
        }
    }
}
