#include "placement_check/stripe_check.h"

#include "placement_check/standings.h"

namespace tessera {
namespace {

/// What stripe the factors of an op have; `dim` is 0 where one has.
using StripesOfFactors = std::vector<Stripe>;

/// Calls visit(register, its factors) for each operand, results too.
template <typename Visit>
void for_each_operand(const ShardingRule& rule, const KernelStep& step, Visit visit) {
  for (size_t i = 0; i < step.inputs.size(); ++i) visit(step.inputs[i], rule.inputs[i]);
  for (size_t i = 0; i < step.outputs.size(); ++i) visit(step.outputs[i], rule.outputs[i]);
}

bool may_be_striped(const ShardingRule& rule, const DimFactor& dim) {
  return dim.factor >= 0 && dim.others.empty() && !dim.window && dim.chunks == 1 &&
         rule.factors[dim.factor].kind == FactorKind::kParallel;
}

StripesOfFactors stripes_of(const Op& op, const ShardingRule& rule, const TaskGraph& tasks,
                            const KernelStep& step) {
  StripesOfFactors stripes(rule.factors.size());
  for_each_operand(rule, step, [&](RegisterIndex index, const OperandFactors& factors) {
    const Register& reg = tasks.registers[index];
    if (reg.stripe.dim < 0) return;
    const DimFactor& dim = factors[reg.stripe.dim];
    if (!may_be_striped(rule, dim) || !op.regions.empty() || !step.call.ints.empty())
      refuse("op '" + op.name + "' cannot work on a stripe of '" + reg.name + "'");
    stripes[dim.factor] = {0, reg.stripe.blocks, reg.stripe.count, reg.stripe.index};
  });
  return stripes;
}

void check_operand(const Op& op, const StripesOfFactors& stripes, const Register& reg,
                   const OperandFactors& factors) {
  for (size_t d = 0; d < factors.size(); ++d)
    for (const DimFactor& dim : choices_of(factors[d])) {
      Stripe wanted = stripes[dim.factor];
      const bool is_striped = wanted.dim == 0;
      wanted.dim = static_cast<int>(d);
      if (is_striped ? !(reg.stripe == wanted) : reg.stripe.dim == wanted.dim)
        refuse("op '" + op.name + "' works on a stripe, and '" + reg.name +
               "' holds another part of it");
    }
}

}  // namespace

void check_stripes(const Op& op, const ShardingRule& rule, const TaskGraph& tasks,
                   const KernelStep& step) {
  const StripesOfFactors stripes = stripes_of(op, rule, tasks, step);
  for_each_operand(rule, step, [&](RegisterIndex index, const OperandFactors& factors) {
    check_operand(op, stripes, tasks.registers[index], factors);
  });
  for (const OperandFactors& output : rule.outputs)
    for (size_t f = 0; f < stripes.size(); ++f)
      if (stripes[f].dim == 0 && !has_factor(output, static_cast<int>(f)))
        refuse("op '" + op.name + "' makes a result whole from a stripe of factor " +
               rule.factors[f].name);
}

void check_stripe_call(const KernelStep& step, const Register& whole, const Stripe& stripe,
                       const std::vector<LocalInt>& rest) {
  std::vector<LocalInt> ints{stripe.dim, stripe.blocks / parts_of_dim(whole.attr, stripe.dim)};
  ints.insert(ints.end(), rest.begin(), rest.end());
  if (step.call.ints != ints)
    refuse("'" + step.op + "' calls " + step.call.kernel + " for other stripes than '" +
           whole.name + "' has");
}

int64_t parts_of_dim(const DistAttr& attr, int dim) {
  int64_t parts = 1;
  for (int axis : attr.dims.at(dim).axes) parts *= attr.mesh->shape()[axis];
  return parts;
}

}  // namespace tessera
