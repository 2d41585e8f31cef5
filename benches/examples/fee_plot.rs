//! Writes `docs/base-fee.svg`.

fn main() -> std::io::Result<()> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/base-fee.svg");
    std::fs::write(path, benches::fee_plot::draw())
}
