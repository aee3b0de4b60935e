#include "lower/passes/buckets.h"

#include <algorithm>
#include <numeric>

namespace tessera {
namespace {

class Buckets {
 public:
  Buckets(Program& program, Bytes bucket)
      : program_(program), bucket_(bucket), made_at_(program.registers.size(), -1) {
    for (int i = 0; i < count(); ++i) {
      place_.push_back({i, 0});
      for (RegisterIndex reg : at(i).writes()) made_at_[reg] = i;
    }
  }

  void run() {
    std::vector<int> movable;
    for (int i = 0; i < count(); ++i)
      if (may_move(i)) movable.push_back(i);
    // As their gradients are made: those of one chain stay together.
    std::stable_sort(movable.begin(), movable.end(),
                     [&](int a, int b) { return root(a) < root(b); });
    for (MeshIndex mesh : program_.meshes.indices()) fill_buckets(mesh, movable);
    reorder();
  }

 private:
  int count() const { return static_cast<int>(program_.instructions.size()); }
  const Instruction& at(int index) const { return program_.instructions[index]; }
  const Register& reg(RegisterIndex index) const { return program_.registers[index]; }
  int maker_of(RegisterIndex index) const { return made_at_[index]; }

  bool may_move(int index) const {
    const Instruction& exchange = at(index);
    if (!exchange.is_exchange || exchange.role != Role::kOptimizer || exchange.micro_batch >= 0)
      return false;
    const Register &source = reg(exchange.source), &target = reg(exchange.target);
    if (source.mesh != target.mesh || target.size > source.size) return false;
    if (target.storage != Register::Storage::kArena || source.storage != Register::Storage::kArena)
      return false;
    const int maker = maker_of(exchange.source);
    return maker >= 0 && (at(maker).role == Role::kBackward || may_move(maker));
  }

  /// The instruction of the backward that made what `exchange`, or the exchanges before it, started
  /// from.
  int root(int exchange) const {
    const int maker = maker_of(at(exchange).source);
    return at(maker).is_exchange && may_move(maker) ? root(maker) : maker;
  }

  void fill_buckets(MeshIndex mesh, const std::vector<int>& movable) {
    std::vector<int> open;
    Bytes bytes{0};
    for (size_t i = 0; i < movable.size(); ++i) {
      const int exchange = movable[i];
      if (at(exchange).mesh != mesh) continue;
      const bool begins_chain = maker_of(at(exchange).source) == root(exchange);
      if (begins_chain && bytes >= bucket_) close(open, bytes);
      open.push_back(exchange);
      if (begins_chain) bytes += reg(at(exchange).source).size;
    }
    if (bytes >= bucket_) close(open, bytes);
  }

  void close(std::vector<int>& open, Bytes& bytes) {
    int last = 0;
    for (int exchange : open) last = std::max(last, root(exchange));
    for (size_t i = 0; i < open.size(); ++i) place_[open[i]] = {last, static_cast<int>(i) + 1};
    open.clear();
    bytes = Bytes(0);
  }

  void reorder() {
    std::vector<int> order(place_.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return place_[a] < place_[b]; });
    std::vector<Instruction> ordered;
    for (int index : order) ordered.push_back(std::move(program_.instructions[index]));
    program_.instructions = std::move(ordered);
  }

  Program& program_;
  Bytes bucket_;
  IndexedVector<RegisterIndex, int> made_at_;  // the instruction that writes it last
  std::vector<std::pair<int, int>>
      place_;  // by instruction: behind which one it comes, and as the how many-th
};

}  // namespace

void exchange_in_buckets(Program& program, Bytes bucket) {
  Buckets(program, bucket).run();
}

}  // namespace tessera
