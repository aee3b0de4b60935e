#include "training/checkpoint/joint_load.h"

#include <algorithm>

#include "base/error.h"
#include "training/checkpoint/crc32c.h"
#include "training/checkpoint/internal/box_runs.h"

namespace tessera {

void JointLoad::load_box(const std::string& name, const Box& box, std::byte* out, bool counts) {
  const IndexTensor& stored = checkpoint_.tensor(name);
  ensure(std::ssize(box.ranges) == stored.whole.shape.size(),
         "the box has the dims of the tensor " + name);
  checkpoint_.with_advice([&] {
    for (const IndexPart& part : stored.parts) load_part(name, stored, part, box, out, counts);
  });
}

void JointLoad::load_part(const std::string& name, const IndexTensor& stored, const IndexPart& part,
                          const Box& box, std::byte* out, bool counts) {
  const int64_t element = size_of(stored.whole.dtype), block = part.checksums.block_bytes;
  const int64_t bytes = element_count(part.box.shape()) * element;
  BoxRuns runs(part.box, box, intersect(part.box, box), element);
  if (runs.done()) return;
  PiecesOfPart found(part.checksums.blocks.size());
  const auto file = checkpoint_.shard(part.file);
  for (; !runs.done(); runs.next()) {
    const Run& run = runs.run();
    const std::span<std::byte> target(out + run.to, run.bytes);
    file->read_at(part.offset + run.from, target);
    checkpoint_.bytes_read_ += run.bytes;
    for (int64_t begin = run.from / block * block; begin < run.from + run.bytes; begin += block) {
      const Range whole{begin, std::min(begin + block, bytes)};
      const Range piece{std::max(begin, run.from), std::min(whole.end, run.from + run.bytes)};
      const auto data = target.subspan(piece.begin - run.from, piece.size());
      Pieces& pieces = found[begin / block];
      if (piece == whole) {
        checkpoint_.check_block(name, part, whole, crc32c(data));
        continue;
      }
      pieces.was_read = true;
      if (!counts) continue;
      pieces.bytes += piece.size();
      pieces.shares ^= crc32c_share(data, whole.end - piece.end);
    }
  }
  const std::scoped_lock lock(mutex_);
  PiecesOfPart& all = pieces_[{name, &part}];
  all.resize(found.size());
  for (size_t i = 0; i < found.size(); ++i)
    all[i] = {all[i].bytes + found[i].bytes, all[i].shares ^ found[i].shares,
              all[i].was_read || found[i].was_read};
}

void JointLoad::finish() {
  const std::scoped_lock lock(mutex_);
  checkpoint_.with_advice([&] {
    for (const auto& [key, blocks] : pieces_) {
      const auto& [name, part] = key;
      const int64_t element = size_of(checkpoint_.tensor(name).whole.dtype);
      finish_part(name, *part, element_count(part->box.shape()) * element, blocks);
    }
  });
  pieces_.clear();
}

void JointLoad::finish_part(const std::string& name, const IndexPart& part, int64_t bytes,
                            const PiecesOfPart& blocks) const {
  const int64_t block = part.checksums.block_bytes;
  std::vector<std::byte> buffer;
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (!blocks[i].was_read) continue;
    const int64_t begin = i * block;
    const Range whole{begin, std::min(begin + block, bytes)};
    if (blocks[i].bytes == whole.size())
      checkpoint_.check_block(name, part, whole, crc32c_of_shares(blocks[i].shares, whole.size()));
    else
      checkpoint_.read_blocks(name, part, whole, buffer);
  }
}

}  // namespace tessera
