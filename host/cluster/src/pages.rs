//! A live list that is read page by page.
//!
//! Owns how large a page is, where the next one begins, and that a list without an end is an error. Each page is a request of its own, to
//! which its caller gives a [time](super::deadline::answered), and of which the caller keeps what it needs: a list that is too large for one
//! answer in time is none page by page.
//!
//! # Failure story
//!
//! A list is read to its end, or its caller has seen enough of it, or it is an error. One whose pages expire while they are read is
//! refused as expired, and the caller begins again.

use std::fmt;
use std::marker::PhantomData;

use futures::AsyncBufReadExt as _;
use kube::api::{ListParams, ObjectList, Request};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

use super::refusal::{Refusal, RefusalReason};

/// How many objects are in a page, unless the list says otherwise.
pub const PAGE: u32 = 500;
/// The most pages of one list: two million objects are more than any cluster has.
pub const MOST_PAGES: usize = 4_000;

/// How the request for a page is made.
type Asks = fn(&Request, &ListParams) -> Result<http::Request<Vec<u8>>, kube::core::request::Error>;

/// The pages of a list, of each of whose objects this is read.
pub struct Pages<T> {
    client: Client,
    request: Request,
    asks: Asks,
    /// Those of the next page.
    params: ListParams,
    /// How many were read.
    read: usize,
    is_over: bool,
    answers: Answers,
    items: PhantomData<fn() -> T>,
}

impl<T: Clone + DeserializeOwned> Pages<T> {
    /// Of objects as the API server has them.
    #[must_use]
    pub fn whole(api: Api<T>, params: ListParams) -> Self
    where
        T: Resource,
    {
        Self::of(api, params, Request::list)
    }

    /// Of their metadata alone: the API server leaves out the rest.
    #[must_use]
    pub fn metadata<K: Resource>(api: Api<K>, params: ListParams) -> Self {
        Self::of(api, params, Request::list_metadata)
    }

    fn of<K: Resource>(api: Api<K>, params: ListParams, asks: Asks) -> Self {
        let request = Request::new(api.resource_url());
        let params = ListParams { limit: params.limit.or(Some(PAGE)), ..params };
        Self {
            client: api.into_client(),
            request,
            asks,
            params,
            read: 0,
            is_over: false,
            answers: Answers::default(),
            items: PhantomData,
        }
    }

    /// The next page; nothing after the last one. Where this is dropped, or fails, the same page is next.
    ///
    /// # Errors
    /// The refusal of the page; or that no end was seen.
    pub async fn next(&mut self) -> Result<Option<Vec<T>>, Refusal> {
        if self.is_over {
            return Ok(None);
        }
        if self.read >= MOST_PAGES {
            let message = format!("a list has more than {MOST_PAGES} pages, and no end was seen");
            return Err(Refusal { reason: RefusalReason::ServerError, message, retry_after: None });
        }
        let request = (self.asks)(&self.request, &self.params).map_err(kube::Error::BuildRequest)?;
        let page: ObjectList<T> = self.answers.read(&self.client, request).await?;
        self.read += 1;
        self.params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
        self.is_over = self.params.continue_token.is_none();
        Ok(Some(page.items))
    }
}

/// Reads one answer after the other in the same place: a page has a megabyte, and memory that is new costs as much as what is read into it.
#[derive(Default)]
pub(crate) struct Answers(Vec<u8>);

impl Answers {
    pub(crate) async fn read<T: DeserializeOwned>(
        &mut self,
        client: &Client,
        request: http::Request<Vec<u8>>,
    ) -> kube::Result<T> {
        self.0.clear();
        let mut answer = std::pin::pin!(client.request_stream(request).await?);
        loop {
            // Not `read_to_end`: it fills all room that is left with zeros each time that it waits.
            let chunk = answer.fill_buf().await.map_err(|error| kube::Error::Service(Box::new(error)))?;
            if chunk.is_empty() {
                break;
            }
            self.0.extend_from_slice(chunk);
            let length = chunk.len();
            answer.consume_unpin(length);
        }
        serde_json::from_slice(&self.0).map_err(kube::Error::SerdeError)
    }

    /// The last answer for now was read.
    pub(crate) fn rest(&mut self) {
        self.0 = Vec::new();
    }
}

impl<T> fmt::Debug for Pages<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pages").field("request", &self.request).field("read", &self.read).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::{Arc, Mutex};

    use http::Response;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::api::PartialObjectMeta;
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;

    /// What was asked: the address, and which form of the objects.
    type Asked = Arc<Mutex<Vec<(String, String)>>>;

    /// A client whose requests are answered in this order, the last answer again and again; and what was asked.
    fn answers(answers: Vec<(u16, Value)>) -> (Client, Asked) {
        let asked = Asked::default();
        let seen = Arc::clone(&asked);
        let serve = move |request: http::Request<Body>| {
            let accepts = request.headers().get(http::header::ACCEPT);
            let accepts = accepts.map(|accepts| accepts.to_str().unwrap().to_owned()).unwrap_or_default();
            let mut seen = seen.lock().unwrap();
            let (code, body) = answers.get(seen.len()).or(answers.last()).cloned().unwrap();
            seen.push((request.uri().to_string(), accepts));
            async move {
                Ok::<_, Infallible>(
                    Response::builder().status(code).body(Body::from(body.to_string().into_bytes())).unwrap(),
                )
            }
        };
        (Client::new(tower::service_fn(serve), "default"), asked)
    }

    fn page(names: &[&str], token: &str) -> (u16, Value) {
        let items: Vec<Value> = names.iter().map(|name| json!({"metadata": {"name": name}})).collect();
        (200, json!({"kind": "List", "apiVersion": "v1", "metadata": {"continue": token}, "items": items}))
    }

    fn refused(code: u16, reason: &str) -> (u16, Value) {
        (code, json!({"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": "no"}))
    }

    fn maps(client: &Client) -> Api<ConfigMap> {
        Api::namespaced(client.clone(), "shop")
    }

    async fn names(mut pages: Pages<ConfigMap>) -> Result<Vec<String>, Refusal> {
        let mut names = Vec::new();
        while let Some(page) = pages.next().await? {
            names.extend(page.into_iter().filter_map(|map| map.metadata.name));
        }
        Ok(names)
    }

    #[tokio::test]
    async fn a_list_is_read_to_its_end_or_is_an_error() {
        let (client, asked) = answers(vec![page(&["a", "b"], "t/1"), page(&[], "t2"), page(&["c"], "")]);
        let all = ListParams::default().labels("a=b");
        assert_eq!(names(Pages::whole(maps(&client), all.clone())).await.unwrap(), ["a", "b", "c"]);
        let list = "/api/v1/namespaces/shop/configmaps?&labelSelector=a%3Db&limit=500";
        let addresses: Vec<String> = asked.lock().unwrap().iter().map(|(address, _)| address.clone()).collect();
        assert_eq!(addresses, [list.to_owned(), format!("{list}&continue=t%2F1"), format!("{list}&continue=t2")]);
        let (client, _) = answers(vec![page(&["a"], "t1"), refused(410, "Expired")]);
        let expired = names(Pages::whole(maps(&client), all.clone())).await.unwrap_err();
        assert_eq!(expired.reason, RefusalReason::Expired);
        let (client, asked) = answers(vec![page(&[], "for ever")]);
        let endless = names(Pages::whole(maps(&client), all)).await.unwrap_err();
        assert_eq!((endless.reason, asked.lock().unwrap().len()), (RefusalReason::ServerError, MOST_PAGES));
    }

    #[tokio::test]
    async fn of_metadata_alone_nothing_else_is_asked_and_a_page_is_as_large_as_its_caller_wants() {
        let (client, asked) = answers(vec![page(&["a"], "t1")]);
        let mut pages: Pages<PartialObjectMeta<ConfigMap>> =
            Pages::metadata(maps(&client), ListParams::default().limit(1));
        let first = pages.next().await.unwrap().unwrap();
        assert_eq!(first.iter().map(|map| map.metadata.name.as_deref()).collect::<Vec<_>>(), [Some("a")]);
        let asked = asked.lock().unwrap().clone();
        let [(address, accepts)] = &asked[..] else { panic!("{asked:?}") };
        assert!(address.ends_with("limit=1") && accepts.contains("as=PartialObjectMetadataList"), "{asked:?}");
    }
}
