//! A cache beside a database: what is read often is kept in this process, and the server tells when it has changed.
//!
//! ```text
//! cache_aside [URL]       a thousand reads of ten products, while another client changes one of them
//! ```
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use polder_client::{CacheOptions, Client, Error, Expiry, Options, SetOptions, Tracking};

/// Stands for a database that is slow.
#[derive(Default)]
struct Database {
    queries: AtomicU32,
}

impl Database {
    async fn price(&self, product: u32) -> String {
        self.queries.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(1)).await;
        format!("{} EUR", product * 10)
    }
}

/// A price: from this process, from the server, or from the database.
async fn price(client: &Client, database: &Database, product: u32) -> Result<String, Error> {
    let key = format!("price:{product}");
    // Tasks that ask for the same at once share one flight.
    if let Some(price) = client.db(4).cached().get::<Option<String>>(&key).await? {
        return Ok(price);
    }
    let price = database.price(product).await;
    // Only where there is none: another task may have put a newer one there meanwhile.
    client
        .db(4)
        .set::<bool>(&key, &price, SetOptions::new().if_absent().expiry(Expiry::In(Duration::from_secs(300))))
        .await?;
    Ok(price)
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://127.0.0.1:6379".into());
    let mut options: Options = url.parse()?;
    // Only what `cached` reads is tracked, so the server's table stays small.
    options.cache = Some(CacheOptions { bytes_max: 16 << 20, tracking: Tracking::OptIn });
    let (client, other, database) =
        (Client::with_options(options)?, Client::connect(&url)?, Database::default());
    for product in 0..10 {
        other.db(4).del::<i64>(format!("price:{product}")).await?;
    }
    for read in 0..1000 {
        price(&client, &database, read % 10).await?;
    }
    let kept = client.cache_stats();
    other.db(4).set::<()>("price:7", "65 EUR", ()).await?;
    while price(&client, &database, 7).await? != "65 EUR" {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let queries = database.queries.load(Ordering::Relaxed);
    println!("1000 reads: {queries} queries, {} from this process; the new price is seen", kept.hits);
    Ok(())
}
