#include "compiler/lower/internal/storage/skyline.h"

#include <algorithm>
#include <tuple>

namespace tessera {

Skyline::Skyline(int instants) : height_(instants, kNone), end_(instants, 0), begin_(instants, 0) {
  add({0, instants - 1, 0});
}

bool Skyline::IsHigher::operator()(const Piece& a, const Piece& b) const {
  return std::tie(a.height, a.begin) > std::tie(b.height, b.begin);
}

Skyline::Piece Skyline::lowest() {
  while (true) {
    const Piece& piece = by_height_.top();
    if (height_[piece.begin] == piece.height && end_[piece.begin] == piece.end) return piece;
    by_height_.pop();
  }
}

void Skyline::raise_lowest() {
  Piece piece = lowest();
  remove(piece);
  const int64_t before = height_before(piece.begin), after = height_from(piece.end + 1);
  piece.height = before == kNone ? after : after == kNone ? before : std::min(before, after);
  add(piece);
}

void Skyline::put_on_lowest(int begin, int end, int64_t bytes) {
  const Piece piece = lowest();
  remove(piece);
  if (piece.begin < begin) add({piece.begin, begin - 1, piece.height});
  if (end < piece.end) add({end + 1, piece.end, piece.height});
  add({begin, end, piece.height + bytes});
}

/// Of the piece that ends right before the instant, or kNone.
int64_t Skyline::height_before(int instant) const {
  if (instant == 0) return kNone;
  const int begin = begin_[instant - 1];  // of the last piece that ended there
  return end_[begin] == instant - 1 ? height_[begin] : kNone;
}
/// Of the piece that begins at the instant, or kNone.
int64_t Skyline::height_from(int instant) const {
  return instant < static_cast<int>(height_.size()) ? height_[instant] : kNone;
}

void Skyline::remove(const Piece& piece) {
  height_[piece.begin] = kNone;
}

/// Adds a piece where there is none; it becomes one with neighbours of its height.
void Skyline::add(Piece piece) {
  if (height_before(piece.begin) == piece.height) {
    piece.begin = begin_[piece.begin - 1];
    height_[piece.begin] = kNone;
  }
  if (height_from(piece.end + 1) == piece.height) {
    const int next = piece.end + 1;
    piece.end = end_[next];
    height_[next] = kNone;
  }
  height_[piece.begin] = piece.height;
  end_[piece.begin] = piece.end;
  begin_[piece.end] = piece.begin;
  by_height_.push(piece);
}

}  // namespace tessera
