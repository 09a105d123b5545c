// Checks WARC files with npm warcio as an independent reader:
//
//   node warcio-check.mjs FOLDER FILE...
//
// FOLDER holds node_modules/warcio. One JSON line a record: what warcio made of
// it and whether the digests of its header are those of the bytes it read. The
// payload is de-chunked by warcio's own reader.
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const [folder, ...files] = process.argv.slice(2);
const { WARCParser, AsyncIterReader } = createRequire(join(folder, "x.js"))("warcio");

function base32(bytes) {
  const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
  let bits = 0, value = 0, out = "";
  for (const b of bytes) {
    value = (value << 8) | b;
    for (bits += 8; bits >= 5; bits -= 5) out += alphabet[(value >>> (bits - 5)) & 31];
    value &= 255;
  }
  if (bits > 0) out += alphabet[(value << (5 - bits)) & 31];
  return out;
}

async function digest(chunks) {
  const h = createHash("sha1");
  let length = 0;
  for await (const c of chunks) {
    h.update(c);
    length += c.length;
  }
  return { sum: "sha1:" + base32(h.digest()), length };
}


for (const file of files) {
  // First pass: the blocks as they are.
  const blocks = [];
  const raw = new WARCParser(createReadStream(file), { parseHttp: false });
  for await (const r of raw) blocks.push({ offset: raw.offset, ...(await digest(r.reader)) });

  // Second pass: HTTP heads parsed, bodies decoded.
  let i = 0;
  const parser = new WARCParser(createReadStream(file), { keepHeadersCase: true });
  for await (const r of parser) {
    const block = blocks[i++];
    const out = {
      file, type: r.warcType, id: r.warcHeader("WARC-Record-ID"), url: r.warcTargetURI, date: r.warcDate,
      offset: block.offset, length: block.length, said: r.warcContentLength,
      block: "none", payload: "none", raw: "none",
    };
    if (r.warcBlockDigest) out.block = r.warcBlockDigest === block.sum ? "ok" : "wrong: " + block.sum;
    if (r.httpHeaders) {
      out.status = r.httpHeaders.statusCode;
      out.coding = r.httpHeaders.headers.get("Content-Encoding") || "";
    }
    const stored = [];
    for await (const c of r.reader) stored.push(c);
    if (r.warcPayloadDigest && r.warcType !== "revisit") {
      const chunked = r.httpHeaders?.headers.get("Transfer-Encoding") === "chunked";
      const entity = await digest(chunked ? new AsyncIterReader(stored, null, true) : stored);
      out.payload = r.warcPayloadDigest === entity.sum ? "ok" : "wrong: " + entity.sum;
      out.raw = r.warcPayloadDigest === (await digest(stored)).sum ? "ok" : "differs";
      // What a replay shows: transfer and content coding undone.
      out.text = (r.httpHeaders ? await digest(r._createDecodingReader(stored)) : entity).sum;
    }
    console.log(JSON.stringify(out));
  }
  if (i !== blocks.length) throw new Error(`${file}: ${blocks.length} records, ${i} with HTTP parsing`);
}
