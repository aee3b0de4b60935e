#include "lower/passes/prefetch.h"

#include <algorithm>

namespace tessera {
namespace {

bool share_ranks(const Mesh& a, const Mesh& b) {
  return std::any_of(a.ranks().begin(), a.ranks().end(), [&](Rank rank) {
    return std::find(b.ranks().begin(), b.ranks().end(), rank) != b.ranks().end();
  });
}

class PrefetchScheduler {
 public:
  PrefetchScheduler(Program& program, Bytes window) : program_(program), window_(window) {}

  void run() {
    delay_turns();
    allow_begins();
  }

 private:
  int count() const { return static_cast<int>(program_.instructions.size()); }
  const Instruction& at(int index) const { return program_.instructions[index]; }
  const Register& reg(RegisterIndex index) const { return program_.registers[index]; }

  /// Another rank has something of it, and nothing but its own readers and its own maker look at
  /// its ends.
  bool is_transfer(const Instruction& instruction) const {
    return instruction.is_exchange && instruction.exchange.kind != ReshardKind::kSlice &&
           reg(instruction.target).storage == Register::Storage::kArena;
  }

  // ---- turns ----

  struct Waiting {
    int index = 0;
    Bytes bytes{0};
  };

  void delay_turns() {
    IndexedVector<RegisterIndex, int> first_reader(program_.registers.size(), -1);
    for (int i = count() - 1; i >= 0; --i)
      for (RegisterIndex read : at(i).reads()) first_reader[read] = i;
    IndexedVector<MeshIndex, std::vector<Waiting>> waiting(program_.meshes.size());  // oldest first
    std::vector<int> order;
    const auto take_turn = [&](std::vector<Waiting>& list, size_t which) {
      order.push_back(list[which].index);
      list.erase(list.begin() + static_cast<std::ptrdiff_t>(which));
    };
    for (int i = 0; i < count(); ++i) {
      const std::vector<RegisterIndex> reads = at(i).reads();
      for (auto& list : waiting)
        for (size_t k = 0; k < list.size();)
          std::find(reads.begin(), reads.end(), at(list[k].index).target) != reads.end()
              ? take_turn(list, k)
              : static_cast<void>(++k);
      const Instruction& instruction = at(i);
      if (!may_wait(instruction, first_reader, i)) {
        order.push_back(i);
        continue;
      }
      auto& list = waiting[instruction.mesh];
      list.push_back({i, reg(instruction.source).size + reg(instruction.target).size});
      while (bytes_of(list) > window_) take_turn(list, 0);
    }
    std::vector<Instruction> ordered;
    for (int index : order) ordered.push_back(std::move(program_.instructions[index]));
    program_.instructions = std::move(ordered);
  }

  bool may_wait(const Instruction& instruction,
                const IndexedVector<RegisterIndex, int>& first_reader, int index) const {
    return is_transfer(instruction) &&
           reg(instruction.source).storage == Register::Storage::kArena &&
           first_reader[instruction.target] > index + 1;
  }

  static Bytes bytes_of(const std::vector<Waiting>& list) {
    Bytes sum{0};
    for (const Waiting& waiting : list) sum += waiting.bytes;
    return sum;
  }

  // ---- begins ----

  /// What is under way on a mesh while an instruction runs.
  struct UnderWay {
    int count = 0;
    Bytes bytes{0};
  };

  void allow_begins() {
    IndexedVector<RegisterIndex, int> made_at(program_.registers.size(), -1);
    IndexedVector<MeshIndex, std::vector<UnderWay>> under_way(
        program_.meshes.size(), std::vector<UnderWay>(program_.instructions.size()));
    for (int i = 0; i < count(); ++i) {
      for (RegisterIndex written : at(i).writes()) made_at[written] = i;
      if (!is_transfer(at(i))) continue;
      auto& on_mesh = under_way[at(i).mesh];
      const Bytes bytes = reg(at(i).target).size;
      const int earliest = std::max(made_at[at(i).source], 0);
      int after = i - 1;
      while (after > earliest && has_room(on_mesh[after], bytes)) --after;
      if (!computes_between(after + 1, i, at(i).mesh)) continue;
      for (int k = after + 1; k < i; ++k) {
        ++on_mesh[k].count;
        on_mesh[k].bytes += bytes;
      }
      program_.instructions[i].issue_after = after;
    }
  }

  bool has_room(const UnderWay& under_way, Bytes bytes) const {
    return under_way.count < kMaxPrefetches && under_way.bytes + bytes <= window_;
  }

  bool computes_between(int begin, int end, MeshIndex mesh) const {
    for (int i = begin; i < end; ++i)
      if (!at(i).is_exchange && !at(i).is_copy &&
          share_ranks(*program_.meshes[at(i).mesh], *program_.meshes[mesh]))
        return true;
    return false;
  }

  Program& program_;
  const Bytes window_;
};

}  // namespace

void schedule_prefetches(Program& program, Bytes window) {
  if (window > Bytes(0)) PrefetchScheduler(program, window).run();
}

std::string prefetch_text(const Program& program) {
  std::string text;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    if (instruction.issue_after < 0) continue;
    const auto begin = program.instructions.begin() + instruction.issue_after + 1;
    const auto behind = std::count_if(
        begin, program.instructions.begin() + static_cast<std::ptrdiff_t>(i),
        [&](const Instruction& other) {
          return other.mesh == instruction.mesh && !other.is_exchange && !other.is_copy;
        });
    text += program.registers[instruction.target].name + " may begin " + std::to_string(behind) +
            (behind == 1 ? " kernel" : " kernels") + " ahead\n";
  }
  return text.empty() ? "every exchange begins at its turn\n" : text;
}

}  // namespace tessera
