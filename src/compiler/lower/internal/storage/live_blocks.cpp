#include "compiler/lower/internal/storage/live_blocks.h"

#include <algorithm>
#include <vector>

namespace tessera {
namespace {

/// The number of instants: one more than the last end.
int count_instants(const LiveBlocks& blocks) {
  int count = 0;
  for (const LiveBlock& block : blocks) count = std::max(count, block.end + 1);
  return count;
}

}  // namespace

int64_t live_bound(const LiveBlocks& blocks) {
  std::vector<int64_t> change(count_instants(blocks) + 1, 0);
  for (const LiveBlock& block : blocks) {
    change[block.begin] += block.bytes;
    change[block.end + 1] -= block.bytes;
  }
  int64_t alive = 0, largest = 0;
  for (int64_t c : change) largest = std::max(largest, alive += c);
  return largest;
}

LiveBlocks in_sections(LiveBlocks blocks) {
  const int instants = count_instants(blocks);
  std::vector<bool> begins(instants, false), ends(instants, false);
  for (const LiveBlock& block : blocks) begins[block.begin] = ends[block.end] = true;
  std::vector<int> section(instants, 0);
  bool has_ended = false;  // a block, since the section began
  for (int instant = 0, now = 0; instant < instants; ++instant) {
    if (begins[instant] && has_ended) {
      ++now;
      has_ended = false;
    }
    section[instant] = now;
    has_ended = has_ended || ends[instant];
  }
  for (LiveBlock& block : blocks) {
    block.begin = section[block.begin];
    block.end = section[block.end];
  }
  return blocks;
}

}  // namespace tessera
