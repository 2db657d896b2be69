/* Kernels with the C++ types of an operator's arguments, so that PyTorch's kernel is called without boxes.
 *
 * A call of a boxed kernel packs each argument into an IValue and unpacks it again, which takes 0.1 to 0.3 us. Outside
 * every block, a typed kernel passes its arguments on unchanged.
 */
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/Scalar.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "refused.h"

namespace asp_torch {

/* Access to the private member of `c10::SafeKernelFunction`, whose public functions call a kernel only with boxes.
 * An explicit instantiation may name private members. */
struct KernelMember {
    using type = c10::KernelFunction c10::SafeKernelFunction::*;
    friend type member_of(KernelMember);
};
template <class Tag, typename Tag::type member> struct Opened {
    friend typename Tag::type member_of(Tag) { return member; }
};
template struct Opened<KernelMember, &c10::SafeKernelFunction::kernel_>;

thread_local int n_in_pytorch = 0; /* kernels of PyTorch that run for a product inside a block: what they call is theirs */

struct InPyTorch {
    InPyTorch() { ++n_in_pytorch; }
    ~InPyTorch() { --n_in_pytorch; }
};

/* Kernel of one operator: PyTorch's, called with its types, or a boxed kernel of ours where `Boxed::is_asked`, unless
 * `Boxed::leaves` the arguments to PyTorch. */
template <class Boxed> struct By {
    template <class Signature> class Typed;

    template <class Result, class... Arguments> class Typed<Result(Arguments...)> final : public c10::OperatorKernel {
      public:
        Typed(const c10::OperatorHandle &op, const c10::KernelFunction &stock, std::unique_ptr<Boxed> ours)
            : op_(op), stock_(stock), boxed_(*ours), ours_(c10::KernelFunction::makeFromBoxedFunctor(std::move(ours)))
        {
        }

        Result operator()(c10::DispatchKeySet keys, Arguments... arguments)
        {
            const Left left = Boxed::is_asked() ? boxed_.leaves(arguments...) : Left::outer;
            std::optional<InPyTorch> guard;
            if (left == Left::all) guard.emplace();
            const auto &kernel = left == Left::none ? ours_ : stock_;
            return kernel.template call<Result, Arguments...>(op_, keys, std::forward<Arguments>(arguments)...);
        }

      private:
        const c10::OperatorHandle op_;
        const c10::KernelFunction stock_;
        const Boxed &boxed_; /* held by `ours_` */
        const c10::KernelFunction ours_;
    };
};

using at::Scalar;
using at::Tensor;
using Read = const Tensor &;
using Number = const Scalar &;

/* Return `ours` as a kernel with the types of the operator; as a boxed kernel where it replaces no kernel with types. */
template <class Boxed>
c10::KernelFunction typed(const c10::OperatorHandle &op, const std::optional<c10::SafeKernelFunction> &stock,
                          std::unique_ptr<Boxed> ours)
{
    const auto made = [&](auto *signature) {
        using Functor = typename By<Boxed>::template Typed<std::remove_pointer_t<decltype(signature)>>;
        const c10::KernelFunction &kernel = (*stock).*member_of(KernelMember());
        return c10::KernelFunction::makeFromUnboxedFunctor<false, Functor>(
            std::make_unique<Functor>(op, kernel, std::move(ours)));
    };
    using Product = Tensor(Read, Read);
    using ProductOut = Tensor &(Read, Read, Tensor &);
    using Sum = Tensor(Read, Read, Read, Number, Number);
    using SumOut = Tensor &(Read, Read, Read, Number, Number, Tensor &);
    using SumInPlace = Tensor &(Tensor &, Read, Read, Number, Number);
    using Reduction = std::tuple<Tensor, Tensor>(Read, Read, c10::string_view);
    using ReductionBackward =
        std::tuple<Tensor, Tensor>(Read, Read, Read, c10::string_view, Read, std::array<bool, 2>);
    const auto &full = op.operator_name();
    const std::string name = full.name.substr(6) + (full.overload_name.empty() ? "" : "." + full.overload_name);
    if (stock && ((*stock).*member_of(KernelMember())).isValidUnboxed()) {
        if (name == "mm" || name == "mv" || name == "bmm" || name == "hspmm" || name == "_sparse_sparse_matmul")
            return made(static_cast<Product *>(nullptr));
        if (name == "mm.out" || name == "bmm.out" || name == "hspmm.out")
            return made(static_cast<ProductOut *>(nullptr));
        if (name == "addmm" || name == "sparse_sampled_addmm") return made(static_cast<Sum *>(nullptr));
        if (name == "addmm.out" || name == "addmv.out" || name == "sparse_sampled_addmm.out" || name == "sspaddmm.out")
            return made(static_cast<SumOut *>(nullptr));
        if (name == "addmm_") return made(static_cast<SumInPlace *>(nullptr));
        if (name == "_sparse_mm_reduce_impl") return made(static_cast<Reduction *>(nullptr));
        if (name == "_sparse_mm_reduce_impl_backward") return made(static_cast<ReductionBackward *>(nullptr));
    }
    return c10::KernelFunction::makeFromBoxedFunctor(std::move(ours));
}

}  // namespace asp_torch
