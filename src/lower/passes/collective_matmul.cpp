#include "lower/passes/collective_matmul.h"

#include <algorithm>
#include <map>

#include "base/text.h"
#include "lower/passes/matmul_chunks.h"

namespace tessera {
namespace {

/// One product, and where it is cut.
struct Product {
  int at = 0;         // its instruction
  size_t input = 0;   // the operand that is cut
  int input_dim = 0;  // of it
  ChunkedDim result;
};

/// One way to take products and exchanges apart.
struct Cut {
  std::vector<Product> products;
  std::vector<ChunkedDim> dims;  // of all that is cut
  int64_t blocks = 1;
  int64_t count = 1;
  Seconds seconds{0};
};

/// The letters of a dot_general: of both operands, and of the result.
struct Letters {
  std::vector<std::string> inputs;
  std::string out;
};

Letters letters_of(const Instruction& product) {
  const std::string& spec = product.step.call.text;
  const size_t comma = spec.find(','), arrow = spec.find("->");
  return {{spec.substr(0, comma), spec.substr(comma + 1, arrow - comma - 1)},
          spec.substr(arrow + 2)};
}

bool same_pass(const Instruction& a, const Instruction& b) {
  return a.role == b.role && a.micro_batch == b.micro_batch && a.stage == b.stage &&
         a.mesh == b.mesh && a.pass == b.pass;
}

class CollectiveMatmuls {
 public:
  CollectiveMatmuls(Program& program, const CollectiveMatmulOptions& options,
                    const ReshardOptions& links)
      : program_(program),
        options_(options),
        links_(links),
        maker_(program.registers.size(), -1),
        readers_(program.registers.size()),
        leaves_(program.registers.size(), false),
        is_replaced_(program.instructions.size(), false),
        replaced_(program.instructions.size()) {
    for (int i = 0; i < count(); ++i) {
      for (RegisterIndex reg : at(i).writes()) maker_[reg] = i;
      for (RegisterIndex reg : at(i).reads()) {
        std::vector<int>& readers = readers_[reg];
        if (readers.empty() || readers.back() != i) readers.push_back(i);
      }
    }
    for (const auto& [name, reg] : program.results) leaves_[reg] = true;
    for (RegisterIndex reg : program.next)
      if (!reg.is_none()) leaves_[reg] = true;
  }

  std::string run() {
    for (int i = 0; i < count(); ++i)
      if (at(i).is_exchange && at(i).exchange.kind == ReshardKind::kAllGather)
        split_behind_gather(i);
    for (int i = 0; i < count(); ++i)
      if (sums_over_ranks(i)) split_before_sum(i);
    std::vector<Instruction> instructions;
    for (int i = 0; i < count(); ++i) {
      if (!is_replaced_[i]) instructions.push_back(std::move(program_.instructions[i]));
      for (Instruction& made : replaced_[i]) instructions.push_back(std::move(made));
    }
    program_.instructions = std::move(instructions);
    return std::move(report_);
  }

 private:
  // ---- what is there ----

  int count() const { return static_cast<int>(replaced_.size()); }
  const Instruction& at(int index) const { return program_.instructions[index]; }
  const Register& reg(RegisterIndex index) const { return program_.registers[index]; }
  const std::vector<int>& readers_of(RegisterIndex index) const { return readers_[index]; }
  bool is_taken(int index) const { return is_replaced_[index]; }
  bool is_in_arena(RegisterIndex index) const {
    return reg(index).storage == Register::Storage::kArena;
  }

  bool is_product(int index) const {
    const Instruction& instruction = at(index);
    return !instruction.is_exchange && !instruction.is_copy &&
           instruction.step.call.kernel == "dot_general" && !is_taken(index) &&
           is_in_arena(instruction.step.outputs.front());
  }

  bool is_on_one_mesh(int exchange) const {
    return reg(at(exchange).source).mesh == reg(at(exchange).target).mesh;
  }

  /// The dim of the result that dim `dim` of operand `input` becomes, when no other operand has it;
  /// or -1.
  int kept_dim(const Instruction& product, size_t input, int dim) const {
    const Letters letters = letters_of(product);
    const char letter = letters.inputs[input][dim];
    const size_t out = letters.out.find(letter);
    return out == std::string::npos || letters.inputs[1 - input].find(letter) != std::string::npos
               ? -1
               : static_cast<int>(out);
  }

  // ---- prices ----

  Seconds kernel_time(int product, int64_t chunks) const {
    const KernelStep& step = at(product).step;
    const Letters letters = letters_of(at(product));
    std::map<char, int64_t> extents;
    for (size_t i = 0; i < 2; ++i) {
      const Shape shape = largest_type(reg(step.inputs[i])).shape;
      for (int d = 0; d < shape.size(); ++d) extents[letters.inputs[i][d]] = shape[d];
    }
    double flops = 2;
    for (const auto& [letter, extent] : extents) flops *= static_cast<double>(extent);
    return Seconds(flops / static_cast<double>(chunks) / options_.cost.flops_per_second) +
           options_.cost.kernel;
  }

  /// Of `kernels` kernels that read and write a register once.
  Seconds copy_time(RegisterIndex index, int64_t kernels) const {
    const double bytes = 2 * static_cast<double>(byte_size(largest_type(reg(index))).value());
    return Seconds(bytes / options_.cost.bytes_per_second +
                   static_cast<double>(kernels) * options_.cost.kernel.value());
  }

  Seconds exchange_time(int exchange, int dim, int64_t chunks) {
    const Exchange& what = at(exchange).exchange;
    TensorType type = reg(at(exchange).source).type;
    if (chunks > 1) type.shape[dim] /= chunks;
    const auto [found, is_new] = prices_.try_emplace(
        {what.from.mesh.get(), to_text(type, what.from) + " to " + to_text(what.to)});
    if (is_new) found->second = price(type, what, links_);
    return found->second;
  }

  // ---- choice ----

  /// Numbers of chunks to look at: those that pay are among all of them; of a wanted number the
  /// largest that fits.
  std::vector<int64_t> counts(const std::vector<ChunkedDim>& dims, int64_t blocks) const {
    std::vector<int64_t> list;
    const bool is_wanted = options_.chunks != kAutoChunks;
    for (int64_t chunks = is_wanted ? options_.chunks : kMaxChunks; chunks > 1; --chunks)
      if (divides_evenly(program_, dims, blocks, chunks)) {
        list.push_back(chunks);
        if (is_wanted) break;
      }
    return list;
  }

  /// Keeps the cheaper of two; of equal ones that with the longer dim.
  void keep_better(std::optional<Cut>& best, Cut cut) const {
    const auto extent = [&](const Cut& c) {
      return largest_type(reg(c.dims.front().reg)).shape[c.dims.front().dim];
    };
    if (!best || cut.seconds < best->seconds ||
        (cut.seconds == best->seconds && extent(cut) > extent(*best)))
      best = std::move(cut);
  }

  /// Says what was found, and whether it is done.
  bool decide(const std::optional<Cut>& best, const std::vector<int>& products,
              const std::vector<int>& exchanges, Seconds whole) {
    const bool pays = best && (options_.chunks != kAutoChunks || best->seconds < whole);
    if (at(products.front()).micro_batch > 0) return pays;
    std::vector<std::string> ops, names;
    for (int product : products) ops.push_back(at(product).step.op);
    for (int exchange : exchanges)
      names.push_back(std::string(to_text(at(exchange).exchange.kind)) + " " +
                      reg(at(exchange).target).name);
    report_ += join(ops, ", ") + " with " + join(names, " and ") + ": ";
    const auto chunks = [&] {
      return std::to_string(best->count) + " chunks of dim " +
             std::to_string(best->products.front().result.dim);
    };
    if (!best)
      report_ += "whole, no dim that could be cut is divided evenly\n";
    else if (pays)
      report_ += chunks() + ", " + to_text(best->seconds) + "; whole " + to_text(whole) + "\n";
    else
      report_ += "whole, " + to_text(whole) + "; " + chunks() + " " + to_text(best->seconds) + "\n";
    return pays;
  }

  // ---- behind an all-gather ----

  /// Products of the same pass that read what `gather` makes, and that as one operand only.
  std::vector<int> products_behind(int gather) const {
    std::vector<int> list;
    for (int reader : readers_of(at(gather).target)) {
      if (!is_product(reader) || !same_pass(at(reader), at(gather))) continue;
      const std::vector<RegisterIndex>& inputs = at(reader).step.inputs;
      if (std::count(inputs.begin(), inputs.end(), at(gather).target) == 1) list.push_back(reader);
    }
    return list;
  }

  /// Those of them that can be cut where dim `dim` of the gathered tensor is, and run where the
  /// first of them does.
  std::vector<Product> cut_behind(int gather, int dim, const std::vector<int>& products) const {
    const RegisterIndex whole = at(gather).target;
    std::vector<Product> list;
    for (int index : products) {
      const std::vector<RegisterIndex>& inputs = at(index).step.inputs;
      const size_t input = inputs.front() == whole ? 0 : 1;
      const int kept = kept_dim(at(index), input, dim);
      if (kept < 0 || (!list.empty() && maker_[inputs[1 - input]] >= list.front().at)) continue;
      const ChunkedDim result{at(index).step.outputs.front(), kept};
      if (common_blocks(program_, std::vector{ChunkedDim{whole, dim}, result}))
        list.push_back({index, input, dim, result});
    }
    const auto comes_first = [&](int reader) { return !list.empty() && reader < list.front().at; };
    const std::vector<int>& readers = readers_of(whole);
    if (std::any_of(readers.begin(), readers.end(), comes_first)) list.clear();
    return list;
  }

  /// Does anything but these products want it whole?
  bool is_wanted_whole(RegisterIndex index, const std::vector<Product>& products) const {
    return leaves_[index] || readers_of(index).size() != products.size();
  }

  void split_behind_gather(int gather) {
    const RegisterIndex source = at(gather).source, target = at(gather).target;
    const std::vector<int> products = products_behind(gather);
    const std::vector<int>& readers = readers_of(target);
    if (products.empty() || !is_on_one_mesh(gather) || !is_in_arena(source) ||
        !is_in_arena(target) ||
        std::any_of(readers.begin(), readers.end(), [&](int reader) { return is_taken(reader); }))
      return;
    Seconds whole = exchange_time(gather, 0, 1);
    for (int product : products) whole += kernel_time(product, 1);
    std::optional<Cut> best;
    for (int dim = 0; dim < reg(target).type.shape.size(); ++dim) {
      Cut cut{cut_behind(gather, dim, products), {{target, dim}, {source, dim}}, 1, 1, Seconds(0)};
      if (cut.products.empty()) continue;
      for (const Product& product : cut.products) cut.dims.push_back(product.result);
      const auto blocks = common_blocks(program_, cut.dims);
      if (!blocks) continue;
      cut.blocks = *blocks;
      for (int64_t chunks : counts(cut.dims, *blocks)) {
        cut.count = chunks;
        cut.seconds = time_behind(gather, cut, products);
        keep_better(best, cut);
      }
    }
    if (decide(best, products, {gather}, whole)) apply_behind(gather, *best);
  }

  Seconds time_behind(int gather, const Cut& cut, const std::vector<int>& products) {
    const int dim = cut.dims.front().dim;
    ChunkTimes times{exchange_time(gather, dim, cut.count), Seconds(0),
                     copy_time(at(gather).source, cut.count)};
    if (is_wanted_whole(at(gather).target, cut.products))
      times.copies += copy_time(at(gather).target, 1);
    Seconds others{0};
    for (int index : products) {
      const bool is_cut = std::any_of(cut.products.begin(), cut.products.end(),
                                      [&](const Product& p) { return p.at == index; });
      (is_cut ? times.kernels : others) += kernel_time(index, is_cut ? cut.count : 1);
      if (is_cut) times.copies += copy_time(at(index).step.outputs.front(), 1);
    }
    return decomposed_time(cut.count, times) + others;
  }

  void apply_behind(int gather, const Cut& cut) {
    const Instruction exchange = at(gather);
    const ChunkedDim target = cut.dims[0], source = cut.dims[1];
    const bool join_target = is_wanted_whole(target.reg, cut.products);
    std::vector<RegisterIndex> free;
    if (!join_target) free.push_back(target.reg);
    for (const Product& product : cut.products)
      if (!at(product.at).step.workspace.is_none()) free.push_back(at(product.at).step.workspace);
    ChunkMaker maker(program_, cut.blocks, cut.count, free);
    const std::vector<RegisterIndex> received = maker.chunks_of(reg(target.reg), target.dim);
    const std::vector<RegisterIndex> sent = maker.chunks_of(reg(source.reg), source.dim);
    std::vector<std::vector<RegisterIndex>> results;
    for (const Product& product : cut.products)
      results.push_back(maker.chunks_of(reg(product.result.reg), product.result.dim));

    std::vector<Instruction> block;
    const int place = cut.products.front().at;
    replace(gather, {});
    for (const Product& product : cut.products) replace(product.at, {});
    for (int64_t i = 0; i < cut.count; ++i) {
      const auto chunk = static_cast<size_t>(i);
      replaced_[gather].push_back(maker.take(source, sent[chunk], exchange));
      block.push_back(ChunkMaker::exchange_of(exchange, sent[chunk], received[chunk]));
      for (size_t p = 0; p < cut.products.size(); ++p)
        block.push_back(maker.kernel_of(at(cut.products[p].at), cut.products[p].input,
                                        received[chunk], results[p][chunk]));
    }
    for (size_t p = 0; p < cut.products.size(); ++p) {
      block.push_back(maker.join(results[p], cut.products[p].result, exchange));
      maker_[cut.products[p].result.reg] = place;
    }
    if (join_target) {
      block.push_back(maker.join(received, target, exchange));
      maker_[target.reg] = place;
    }
    replaced_[place] = std::move(block);
  }

  // ---- before a sum over ranks ----

  /// Products whose results are added up, and the additions, in order; of one product none.
  struct Addends {
    std::vector<int> products;
    std::vector<int> additions;
  };

  bool sums_over_ranks(int index) const {
    const ReshardKind kind = at(index).exchange.kind;
    return at(index).is_exchange &&
           (kind == ReshardKind::kReduceScatter || kind == ReshardKind::kAllReduce) &&
           !is_taken(index) && is_on_one_mesh(index);
  }

  /// What an exchange takes, from its products on, if nothing else looks at any of it.
  bool find_addends(RegisterIndex result, int exchange, Addends& found) const {
    const int maker = maker_[result];
    if (maker < 0 || is_taken(maker) || !same_pass(at(maker), at(exchange)) ||
        readers_of(result).size() != 1 || leaves_[result] || !is_in_arena(result))
      return false;
    if (is_product(maker)) {
      found.products.push_back(maker);
      return true;
    }
    const Instruction& addition = at(maker);
    if (addition.is_exchange || addition.step.call.kernel != "binary.add" ||
        addition.step.inputs[0] == addition.step.inputs[1] ||
        !find_addends(addition.step.inputs[0], exchange, found) ||
        !find_addends(addition.step.inputs[1], exchange, found))
      return false;
    found.additions.push_back(maker);
    return true;
  }

  /// What is read at `from` is read at `to` as well: no variable is written over in between.
  bool may_move(int from, int to) const {
    for (int i = from + 1; i <= to; ++i)
      for (RegisterIndex written : at(i).writes())
        if (!is_in_arena(written)) return false;
    return true;
  }

  /// `first`, and the all-gathers of the same pass through which its result goes at once.
  std::vector<int> exchanges_from(int first) const {
    std::vector<int> chain{first};
    while (true) {
      const RegisterIndex last = at(chain.back()).target;
      if (readers_of(last).size() != 1 || leaves_[last]) return chain;
      const int next = readers_of(last).front();
      if (!at(next).is_exchange || is_taken(next) ||
          at(next).exchange.kind != ReshardKind::kAllGather || !is_on_one_mesh(next) ||
          !same_pass(at(next), at(first)) || !is_in_arena(at(next).target))
        return chain;
      chain.push_back(next);
    }
  }

  /// The product cut where its result has dim `dim`.
  std::optional<Product> cut_at(int product, int dim) const {
    for (size_t input = 0; input < 2; ++input)
      for (int d = 0; d < reg(at(product).step.inputs[input]).type.shape.size(); ++d)
        if (kept_dim(at(product), input, d) == dim)
          return Product{product, input, d, {at(product).step.outputs.front(), dim}};
    return std::nullopt;
  }

  RegisterIndex operand_of(const Product& product) const {
    return at(product.at).step.inputs[product.input];
  }

  /// Everything that has dim `dim`: results, operands, and what is exchanged; or products that
  /// cannot be cut there.
  std::optional<Cut> cut_before(const Addends& addends, const std::vector<int>& exchanges,
                                int dim) const {
    Cut cut{{}, {{at(exchanges.front()).source, dim}}, 1, 1, Seconds(0)};
    for (int exchange : exchanges) cut.dims.push_back({at(exchange).target, dim});
    for (int index : addends.products) {
      const auto product = cut_at(index, dim);
      if (!product) return std::nullopt;
      cut.products.push_back(*product);
      cut.dims.push_back(product->result);
      cut.dims.push_back({operand_of(*product), product->input_dim});
    }
    const auto blocks = common_blocks(program_, cut.dims);
    if (!blocks) return std::nullopt;
    cut.blocks = *blocks;
    return cut;
  }

  void split_before_sum(int first) {
    Addends addends;
    if (!is_in_arena(at(first).target) || !find_addends(at(first).source, first, addends)) return;
    const int place = maker_[at(first).source];
    if (std::any_of(addends.products.begin(), addends.products.end(),
                    [&](int product) { return !may_move(product, place); }))
      return;
    const std::vector<int> exchanges = exchanges_from(first);
    Seconds whole = kernels_time(addends, 1);
    for (int exchange : exchanges) whole += exchange_time(exchange, 0, 1);
    std::optional<Cut> best;
    for (int dim = 0; dim < reg(at(first).source).type.shape.size(); ++dim) {
      auto cut = cut_before(addends, exchanges, dim);
      if (!cut) continue;
      for (int64_t chunks : counts(cut->dims, cut->blocks)) {
        cut->count = chunks;
        cut->seconds = time_before(*cut, addends, exchanges);
        keep_better(best, *cut);
      }
    }
    if (decide(best, addends.products, exchanges, whole))
      apply_before(*best, addends, exchanges, place);
  }

  Seconds kernels_time(const Addends& addends, int64_t chunks) const {
    Seconds time{0};
    for (int product : addends.products) time += kernel_time(product, chunks);
    for (int addition : addends.additions)
      time += Seconds(copy_time(at(addition).step.outputs.front(), 0).value() /
                      static_cast<double>(chunks)) +
              options_.cost.kernel;
    return time;
  }

  Seconds time_before(const Cut& cut, const Addends& addends, const std::vector<int>& exchanges) {
    ChunkTimes times{Seconds(0), kernels_time(addends, cut.count),
                     copy_time(at(exchanges.back()).target, 1)};
    for (const Product& product : cut.products)
      times.copies += copy_time(operand_of(product), cut.count);
    for (int exchange : exchanges)
      times.exchange += exchange_time(exchange, cut.dims.front().dim, cut.count);
    return decomposed_time(cut.count, times);
  }

  void apply_before(const Cut& cut, const Addends& addends, const std::vector<int>& exchanges,
                    int place) {
    const int dim = cut.dims.front().dim;
    const ChunkedDim last{at(exchanges.back()).target, dim};
    std::vector<RegisterIndex> free;
    std::map<RegisterIndex, Register> wholes;  // of what is there in chunks only
    const auto replace_whole = [&](int index, RegisterIndex made) {
      wholes[made] = reg(made);
      if (made != last.reg) free.push_back(made);
      if (!at(index).step.workspace.is_none()) free.push_back(at(index).step.workspace);
      replace(index, {});
    };
    for (int product : addends.products) replace_whole(product, at(product).step.outputs.front());
    for (int addition : addends.additions)
      replace_whole(addition, at(addition).step.outputs.front());
    for (int exchange : exchanges) replace_whole(exchange, at(exchange).target);
    ChunkMaker maker(program_, cut.blocks, cut.count, free);
    std::vector<Instruction>& kernels = replaced_[place];
    std::vector<Instruction>& travels = replaced_[exchanges.back()];
    std::vector<RegisterIndex> ends;
    for (int64_t i = 0; i < cut.count; ++i) {
      std::map<RegisterIndex, RegisterIndex> chunk;  // by whole register
      const auto add = [&](RegisterIndex whole) {
        return chunk[whole] = maker.chunk_of(wholes.at(whole), dim, i);
      };
      for (const Product& product : cut.products) {
        const RegisterIndex operand = operand_of(product),
                            taken = maker.chunk_of(reg(operand), product.input_dim, i);
        kernels.push_back(maker.take({operand, product.input_dim}, taken, at(product.at)));
        kernels.push_back(
            maker.kernel_of(at(product.at), product.input, taken, add(product.result.reg)));
      }
      for (int addition : addends.additions) {
        kernels.push_back(at(addition));
        KernelStep& step = kernels.back().step;
        step.inputs = {chunk.at(step.inputs[0]), chunk.at(step.inputs[1])};
        step.outputs = {add(step.outputs.front())};
      }
      for (int exchange : exchanges)
        travels.push_back(ChunkMaker::exchange_of(at(exchange), chunk.at(at(exchange).source),
                                                  add(at(exchange).target)));
      ends.push_back(chunk.at(last.reg));
    }
    travels.push_back(maker.join(ends, last, at(exchanges.back())));
  }

  /// In the place of an instruction.
  void replace(int index, std::vector<Instruction> made) {
    is_replaced_[index] = true;
    replaced_[index] = std::move(made);
  }

  Program& program_;
  const CollectiveMatmulOptions& options_;
  const ReshardOptions& links_;
  IndexedVector<RegisterIndex, int> maker_;  // the instruction that fills it, -1: a feed
  IndexedVector<RegisterIndex, std::vector<int>> readers_;
  IndexedVector<RegisterIndex, bool> leaves_;  // is it a result, or the next value of a variable?
  std::vector<bool> is_replaced_;              // by instruction
  std::vector<std::vector<Instruction>> replaced_;  // by instruction: what comes in its place
  std::map<std::pair<const Mesh*, std::string>, Seconds> prices_;
  std::string report_;
};

}  // namespace

Seconds decomposed_time(int64_t chunks, const ChunkTimes& of_chunk) {
  const auto& [exchange, kernels, copies] = of_chunk;
  const double hidden = static_cast<double>(chunks - 1) * std::max(exchange, kernels).value();
  return copies + exchange + Seconds(hidden) + kernels;
}

std::string decompose_collective_matmuls(Program& program, const CollectiveMatmulOptions& options,
                                         const ReshardOptions& links) {
  if (options.chunks == 1) return "";
  return CollectiveMatmuls(program, options, links).run();
}

}  // namespace tessera
