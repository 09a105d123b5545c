// Package report writes what a crawl has come to into reports/: summary.json,
// hosts.csv, mimetypes.csv, status.csv and seeds.csv, counted from the
// frontier's records of URLs and from nothing else.
//
// Memory is bounded: seeds go straight to their file; hosts are counted in
// memory up to a limit, then sorted out to temporary files and merged at the
// end, so that hosts.csv is exact whatever their number; media types and
// results beyond a limit are counted as "(other)".
//
// Files appear whole: each is written beside its place and renamed. Cells of a
// CSV file that a spreadsheet would take for a formula are quoted with an
// apostrophe; what came from the web holds no control characters.
package report
