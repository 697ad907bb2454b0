//! Callers of a cluster: who they are and what they may do is the cluster's answer, remembered for
//! seconds.

use std::fmt;
use std::future::Future;
use std::hash::Hash;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use lru::LruCache;
use tokio::sync::Semaphore;

/// The time for which a positive answer is used again: a right that is withdrawn lasts no longer.
const GRANTED_FOR: Duration = Duration::from_secs(10);

/// The time for which a negative answer is used again: a right that was just granted is seen soon.
const DENIED_FOR: Duration = Duration::from_secs(3);

/// The most answers that are remembered, of each kind.
const REMEMBERED: NonZeroUsize = NonZeroUsize::new(4096).expect("more than none");

/// The most questions to the API server at once. Further callers wait.
const AT_ONCE: usize = 16;

/// The longest token that is sent to the API server. Longer ones are not tokens of a cluster.
const TOKEN_LENGTH: usize = 16 << 10;

/// A user as the cluster knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct User {
    pub name: String,
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: Vec<(String, Vec<String>)>,
}

/// Something that a caller wants to do, in the terms of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Right {
    pub verb: &'static str,
    pub target: Target,
}

/// The object of a [`Right`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// Core resources of the whole cluster.
    All { resource: &'static str, subresource: Option<&'static str> },
    /// One core object.
    Object { resource: &'static str, namespace: String, name: String },
    /// A path that is no resource.
    Path(&'static str),
}

impl fmt::Display for Right {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = self.verb;
        match &self.target {
            Target::All { resource, subresource: None } => {
                write!(out, "{verb} {resource} in the whole cluster")
            }
            Target::All { resource, subresource: Some(sub) } => {
                write!(out, "{verb} {resource}/{sub} in the whole cluster")
            }
            Target::Object { resource, namespace, name } => {
                write!(out, "{verb} {resource} {namespace}/{name}")
            }
            Target::Path(path) => write!(out, "{verb} {path}"),
        }
    }
}

/// The answer about a right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Granted,
    Denied,
}

/// A question that the cluster did not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unanswered(pub String);

/// An answer that is on its way.
pub type Asked<'a, T> = Pin<Box<dyn Future<Output = Result<T, Unanswered>> + Send + 'a>>;

/// Asks a cluster about callers.
pub trait Reviewer: Send + Sync {
    /// Finds the user that a token belongs to; `None` if the cluster does not accept it.
    fn authenticate(&self, token: String) -> Asked<'_, Option<User>>;

    /// Asks whether a user has a right.
    fn authorize(&self, user: Arc<User>, right: Right) -> Asked<'_, Access>;
}

/// A reviewer whose answers are remembered for a short time.
pub(crate) struct Reviews {
    reviewer: Arc<dyn Reviewer>,
    /// By the SHA-256 of the token, which is not kept itself.
    users: Remembered<[u8; 32], Option<Arc<User>>>,
    rights: Remembered<(Arc<User>, Right), Access>,
    asking: Semaphore,
}

impl fmt::Debug for Reviews {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Reviews")
    }
}

impl Reviews {
    pub(crate) fn new(reviewer: Arc<dyn Reviewer>) -> Reviews {
        let asking = Semaphore::new(AT_ONCE);
        Reviews { reviewer, users: Remembered::new(), rights: Remembered::new(), asking }
    }

    /// Finds the user that a token belongs to.
    pub(crate) async fn user(&self, token: &[u8]) -> Result<Option<Arc<User>>, Unanswered> {
        let text = std::str::from_utf8(token).ok().filter(|text| text.len() <= TOKEN_LENGTH);
        let Some(text) = text else { return Ok(None) };
        let digest = super::tokens::digest(token);
        if let Some(known) = self.users.get(&digest) {
            return Ok(known);
        }
        let _turn = self.asking.acquire().await;
        // Another request of the same caller may have asked in the meantime.
        if let Some(known) = self.users.get(&digest) {
            return Ok(known);
        }
        let user = self.reviewer.authenticate(text.to_owned()).await?.map(Arc::new);
        let lasts = if user.is_some() { GRANTED_FOR } else { DENIED_FOR };
        self.users.put(digest, user.clone(), lasts);
        Ok(user)
    }

    /// Returns the first of these rights that a user does not have.
    pub(crate) async fn missing(
        &self,
        user: &Arc<User>,
        rights: Vec<Right>,
    ) -> Result<Option<Right>, Unanswered> {
        for right in rights {
            if self.access(user, &right).await? == Access::Denied {
                return Ok(Some(right));
            }
        }
        Ok(None)
    }

    async fn access(&self, user: &Arc<User>, right: &Right) -> Result<Access, Unanswered> {
        let key = (user.clone(), right.clone());
        if let Some(known) = self.rights.get(&key) {
            return Ok(known);
        }
        let _turn = self.asking.acquire().await;
        if let Some(known) = self.rights.get(&key) {
            return Ok(known);
        }
        let access = self.reviewer.authorize(user.clone(), right.clone()).await?;
        let lasts = if access == Access::Granted { GRANTED_FOR } else { DENIED_FOR };
        self.rights.put(key, access, lasts);
        Ok(access)
    }
}

/// Answers by question, each until its time; the least recently used go first.
struct Remembered<K, V>(Mutex<LruCache<K, (Instant, V)>>);

impl<K: Eq + Hash, V: Clone> Remembered<K, V> {
    fn new() -> Self {
        Remembered(Mutex::new(LruCache::new(REMEMBERED)))
    }

    fn get(&self, key: &K) -> Option<V> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (until, value) = known.get(key)?;
        (Instant::now() < *until).then(|| value.clone())
    }

    fn put(&self, key: K, value: V, lasts: Duration) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.put(key, (Instant::now() + lasts, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Knows one token, whose user may get pods. Counts what it is asked.
    #[derive(Default)]
    struct OneUser {
        asked: Mutex<usize>,
    }

    impl OneUser {
        fn count(&self) {
            *self.asked.lock().expect("no panic") += 1;
        }
    }

    impl Reviewer for OneUser {
        fn authenticate(&self, token: String) -> Asked<'_, Option<User>> {
            self.count();
            let user = User { name: "alice".into(), ..User::default() };
            Box::pin(async move { Ok((token == "hers").then_some(user)) })
        }

        fn authorize(&self, _: Arc<User>, right: Right) -> Asked<'_, Access> {
            self.count();
            let access = if right.verb == "get" { Access::Granted } else { Access::Denied };
            Box::pin(async move { Ok(access) })
        }
    }

    fn right(verb: &'static str) -> Right {
        Right { verb, target: Target::All { resource: "pods", subresource: None } }
    }

    #[tokio::test]
    async fn a_cluster_is_asked_once_for_the_same_answer() {
        let reviewer = Arc::new(OneUser::default());
        let reviews = Reviews::new(reviewer.clone());
        for _ in 0..5 {
            let user = reviews.user(b"hers").await.expect("an answer").expect("a user");
            assert_eq!(reviews.user(b"another").await, Ok(None));
            let missing = reviews.missing(&user, vec![right("get"), right("list")]).await;
            assert_eq!(missing, Ok(Some(right("list"))));
        }
        assert_eq!(*reviewer.asked.lock().expect("no panic"), 4);
        let huge = vec![b'a'; TOKEN_LENGTH + 1];
        assert_eq!(reviews.user(&huge).await, Ok(None));
        assert_eq!(reviews.user(&[0xff]).await, Ok(None));
        assert_eq!(*reviewer.asked.lock().expect("no panic"), 4);
    }

    #[tokio::test]
    async fn the_memory_for_answers_is_bounded() {
        let reviews = Reviews::new(Arc::new(OneUser::default()));
        for number in 0..REMEMBERED.get() + 10 {
            let found = reviews.user(format!("token-{number}").as_bytes()).await;
            assert_eq!(found, Ok(None));
        }
        assert_eq!(reviews.users.0.lock().expect("no panic").len(), REMEMBERED.get());
    }

    #[test]
    fn an_answer_lasts_for_its_time() {
        let known = Remembered::new();
        known.put("past", 1, Duration::ZERO);
        known.put("now", 2, Duration::from_secs(60));
        assert_eq!((known.get(&"past"), known.get(&"now")), (None, Some(2)));
    }
}
