/* Kernels that the override puts over PyTorch's own, and the C functions that Python calls (by ctypes).
 *
 * A kernel tests in C++ whether the override is active, and calls PyTorch's kernel where it is not. Inside a block it
 * computes small products itself; PyTorch computes small products that it cannot read; Python computes the others.
 *
 * PyTorch's stable C interface is not enough for this: it passes no numbers (alpha, beta) to kernels, has no access to
 * the kernel that a registration replaces, and no members of sparse tensors. The module uses PyTorch's C++ interface and
 * is built for one version of PyTorch.
 */
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>
#include <torch/headeronly/version.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "places.h"
#include "sampled.h"
#include "scope.h"
#include "typed.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace asp_torch {

using torch::jit::Stack;

/* Positions of the arguments of an operator on the stack; -1: it has no such argument. */
struct Signature {
    int n_args, a, b, n_dims, base = -1, scalars = -1, out = -1, reduce = -1; /* n_dims 0: a sampled product */
};

const std::map<std::string, Signature> SIGNATURES = {
    {"mm", {2, 0, 1, 2}},
    {"mm.out", {3, 0, 1, 2, -1, -1, 2}},
    {"addmm", {5, 1, 2, 2, 0, 3}},
    {"addmm.out", {6, 1, 2, 2, 0, 3, 5}},
    {"addmm_", {5, 1, 2, 2, 0, 3, 0}},
    {"mv", {2, 0, 1, 1}},
    {"addmv.out", {6, 1, 2, 1, 0, 3, 5}},
    {"sparse_sampled_addmm", {5, 1, 2, 0, 0, 3}},
    {"_sparse_mm_reduce_impl", {3, 0, 1, 2, -1, -1, -1, 2}},
};

/* Products of COO tensors that PyTorch computes after a check of their indices. */
const std::set<std::string> CHECKED = {"bmm", "bmm.out", "hspmm", "hspmm.out", "sspaddmm.out", "_sparse_sparse_matmul"};

std::atomic<bool> computes{true};        /* false: every product inside a block goes to Python, for tests */
std::atomic<int64_t> n_computed{0};      /* products that were computed here */
thread_local int64_t known = 0;          /* structure of the product that Python computes now, see asp_torch_known */

/* Kernel of one operator and dispatch key. */
class Kernel final : public c10::OperatorKernel {
  public:
    Kernel(Place &place, const Signature *signature)
        : stock_(place.stock), python_(place.python), signature_(signature),
          is_on_cpu_(place.key.find("CPU") != std::string::npos), only_checks_(CHECKED.count(place.name))
    {
    }

    static bool is_asked() { return is_on() && !n_in_pytorch; }

    /* Return what PyTorch computes of a call inside a block before any of its arguments is packed. */
    template <class... Arguments> Left leaves(const Arguments &...arguments) const
    {
        if (!is_on_cpu_ || !computes.load(std::memory_order_relaxed)) return Left::none;
        if (only_checks_) return layouts_of(arguments...).are_sound() ? Left::outer : Left::none;
        return left_to_pytorch(arguments...);
    }

    void operator()(const c10::OperatorHandle &op, c10::DispatchKeySet keys, Stack *stack)
    {
        if (stock_ && !is_asked()) return stock_->callBoxed(op, keys, stack);
        known = 0;
        if (signature_ && computes.load(std::memory_order_relaxed)) {
            if (signature_->n_dims ? multiplies(op, keys, stack) : samples(stack)) return;
        }
        python_.callBoxed(op, keys, stack);
    }

  private:
    /* Compute a product, or let PyTorch compute it; return false if Python does. */
    bool multiplies(const c10::OperatorHandle &op, c10::DispatchKeySet keys, Stack *stack) const
    {
        const at::Tensor &A = argument(*stack, signature_->a), &B = argument(*stack, signature_->b);
        Task task;
        if (stock_ && A.layout() == c10::kSparse && B.layout() == c10::kStrided &&
            c10::isIntegralType(A.scalar_type(), true)) {
            const InPyTorch guard; /* Python would call PyTorch's kernel, too, after a check of CSR indices only */
            stock_->callBoxed(op, keys, stack);
            return true;
        }
        if (A.layout() == c10::kStrided) return multiplies_rows(op, keys, stack);
        if (!read_matrix(A, &task.A)) return false;
        if (read(*stack, B, &task) && answer(task, stack)) return true;
        if (!stock_ || !is_for_pytorch(*stack, task.A, B) || !validate(task.A).is_sound) return false;
        const InPyTorch guard;
        stock_->callBoxed(op, keys, stack);
        return true;
    }

    /* Compute a small product with a sparse matrix on the right, as in `linear`, or let PyTorch compute it. */
    bool multiplies_rows(const c10::OperatorHandle &op, c10::DispatchKeySet keys, Stack *stack) const
    {
        const at::Tensor &right = argument(*stack, signature_->b);
        Entries B;
        Dense X, base;
        if (!stock_ || signature_->out >= 0 || !read_rows(argument(*stack, signature_->a), right, &X, &B) ||
            (signature_->base >= 0 && !read_dense(argument(*stack, signature_->base), 2, &base)))
            return false;
        at::Tensor result;
        if (signature_->base < 0 && multiply_rows(X, B, &result)) {
            push(std::move(result), stack);
            return true;
        }
        const InPyTorch guard;
        stock_->callBoxed(op, keys, stack);
        return true;
    }

    bool samples(Stack *stack) const
    {
        const size_t first = stack->size() - signature_->n_args;
        double beta, alpha;
        at::Tensor result;
        if (!read_number((*stack)[first + signature_->scalars], &beta) ||
            !read_number((*stack)[first + signature_->scalars + 1], &alpha) ||
            !sample(argument(*stack, signature_->base), argument(*stack, signature_->a),
                    argument(*stack, signature_->b), beta, alpha, &result))
            return false;
        push(std::move(result), stack);
        return true;
    }

    /* Replace the arguments by the result, which was computed here. */
    void push(at::Tensor result, Stack *stack) const
    {
        torch::jit::drop(*stack, signature_->n_args);
        stack->emplace_back(std::move(result));
        n_computed.fetch_add(1, std::memory_order_relaxed);
    }

    const at::Tensor &argument(const Stack &stack, int position) const
    {
        return stack[stack.size() - signature_->n_args + position].toTensor();
    }

    bool read(const Stack &stack, const at::Tensor &B, Task *task) const
    {
        const size_t first = stack.size() - signature_->n_args;
        if (signature_->reduce >= 0) {
            const std::string &reduce = stack[first + signature_->reduce].toStringRef();
            task->is_mean = reduce == "mean";
            if ((reduce != "sum" && !task->is_mean) || !is_csr(stack) || !is_real(task->A.dtype)) return false;
        }
        if (signature_->scalars >= 0 && !(read_number(stack[first + signature_->scalars], &task->beta) &&
                                          read_number(stack[first + signature_->scalars + 1], &task->alpha)))
            return false;
        if (!std::isfinite(task->alpha) && (!task->A.starts || !task->A.nnz)) return false; /* see `_leaves_zeros` */
        const auto *base = signature_->base < 0 ? nullptr : &argument(stack, signature_->base);
        const auto *out = signature_->out < 0 ? nullptr : &argument(stack, signature_->out);
        return read_operands(B, base, out, signature_->n_dims, task);
    }

    bool is_csr(const Stack &stack) const { return argument(stack, signature_->a).layout() == c10::kSparseCsr; }

    /* Replace the arguments by the result; return false if Python or PyTorch computes the product. */
    bool answer(Task &task, Stack *stack) const
    {
        at::Tensor result;
        const Answer how = serve(task, &result, &known);
        if (how == Answer::composed) result = composed(task);
        else if (how != Answer::computed) return false;
        if (signature_->out >= 0) result = argument(*stack, signature_->out);
        push(std::move(result), stack);
        if (signature_->reduce >= 0) stack->emplace_back(at::Tensor(at::detail::empty_cpu({0}, at::kLong)));
        return true;
    }

    /* Return whether PyTorch computes a small product faster than Python code starts. */
    bool is_for_pytorch(const Stack &stack, const Entries &A, const at::Tensor &B) const
    {
        Dense X, base;
        const int64_t most = limits.pytorch;
        if (signature_->out >= 0 || signature_->reduce >= 0 || A.by_columns || known) return false;
        if (signature_->base >= 0 && !read_dense(argument(stack, signature_->base), 2, &base)) return false;
        if (!read_dense(B, 2, &X) || X.n_dims != signature_->n_dims || X.dtype != A.dtype) return false;
        return X.sizes[0] == A.k && A.nnz < most && X.sizes[1] < most && A.nnz * X.sizes[1] < most;
    }

    std::optional<c10::SafeKernelFunction> stock_;
    LateKernel &python_;
    const Signature *signature_; /* null: no product is computed here */
    const bool is_on_cpu_, only_checks_;
};

/* Kernel of aten::mm with autograd: Python where the gradient of a CSR matrix is to be sparse. */
class GradientKernel final : public c10::OperatorKernel {
  public:
    explicit GradientKernel(Place &place) : stock_(place.stock.value()), python_(place.python) {}

    static bool is_asked() { return has_sparse_gradients(); }
    template <class... Arguments> Left leaves(const Arguments &...) const { return Left::none; }

    void operator()(const c10::OperatorHandle &op, c10::DispatchKeySet keys, Stack *stack)
    {
        if (is_asked()) {
            const at::Tensor &A = (*stack)[stack->size() - 2].toTensor();
            if (A.layout() == c10::kSparseCsr && A.requires_grad() && c10::GradMode::is_enabled())
                return python_.callBoxed(op, keys, stack);
        }
        stock_.callBoxed(op, keys, stack);
    }

  private:
    c10::SafeKernelFunction stock_;
    LateKernel &python_;
};

struct Silent final : c10::WarningHandler {
    void process(const c10::Warning &) override {}
};

std::string fault; /* of the last registration */

template <class Function> int caught(Function function)
{
    try {
        function();
        return 0;
    } catch (const std::exception &error) {
        fault = error.what();
        return 1;
    }
}

/* Keep the present kernel of a place, before ours is registered. */
void keep(Place &place)
{
    const auto key = c10::parseDispatchKey(place.key);
    const auto op = operator_of("aten", place.name);
    place.python.forget();
    place.stock.reset();
    if (op.hasComputedKernelForDispatchKey(key)) place.stock.emplace(op.getComputedKernelForDispatchKey(key));
}

/* Register a kernel that chooses between the kernel that was kept and Python's kernel. */
void replace(Place &place)
{
    const auto op = operator_of("aten", place.name);
    c10::KernelFunction kernel;
    if (place.key.rfind("Autograd", 0) == 0) {
        kernel = typed(op, place.stock, std::make_unique<GradientKernel>(place));
    } else {
        const auto signature = SIGNATURES.find(place.name);
        const bool computes = signature != SIGNATURES.end() && place.key.find("CPU") != std::string::npos;
        kernel = typed(op, place.stock, std::make_unique<Kernel>(place, computes ? &signature->second : nullptr));
    }
    Silent silent; /* PyTorch warns of each replaced kernel */
    const c10::WarningUtils::WarningHandlerGuard guard(&silent);
    place.registration.emplace(c10::Dispatcher::singleton().registerImpl(
        op.operator_name(), c10::parseDispatchKey(place.key), std::move(kernel), std::nullopt, nullptr, "autosparse"));
}

void hold() { table_lock.lock(); }
void release() { table_lock.unlock(); }
void release_in_child()
{
    table_lock.unlock();
    keep_own_blocks();
}

}  // namespace asp_torch

using namespace asp_torch;

/* Return the version of PyTorch for which the module was built. */
EXPORT const char *asp_torch_version() { return TORCH_VERSION; }
EXPORT const char *asp_torch_fault() { return fault.c_str(); }

/* Set functions of the C runtime, in the order of `Runtime`, and size limits, in the order of `Limits`. */
EXPORT void asp_torch_set_up(const uintptr_t *functions, const int64_t *sizes)
{
    runtime = {reinterpret_cast<decltype(Runtime::product)>(functions[0]),
               reinterpret_cast<decltype(Runtime::scaled_sum)>(functions[1]),
               reinterpret_cast<decltype(Runtime::sampled)>(functions[2]),
               reinterpret_cast<decltype(Runtime::check)>(functions[3]),
               reinterpret_cast<decltype(Runtime::hash)>(functions[4]),
               reinterpret_cast<decltype(Runtime::coordinates)>(functions[5]),
               reinterpret_cast<decltype(Runtime::dense_rows)>(functions[6]),
               reinterpret_cast<decltype(Runtime::rows)>(functions[7])};
    std::copy_n(sizes, sizeof limits / sizeof *sizes, reinterpret_cast<int64_t *>(&limits));
    static const int once = pthread_atfork(hold, release, release_in_child);
    (void)once;
}

/* Replace kernels of places, given as words "mm.out SparseCsrCPU", by ours, which choose between the replaced kernel and
 * Python's. All present kernels are kept first, because PyTorch's kernels call each other through the dispatcher. */
EXPORT int asp_torch_replace(const char *words)
{
    return caught([&] {
        std::vector<Place *> asked;
        std::istringstream stream(words);
        for (std::string name, key; stream >> name >> key;)
            asked.push_back(&places.try_emplace({name, key}, name, key).first->second);
        for (Place *place : asked) keep(*place);
        for (Place *place : asked) replace(*place);
    });
}

/* Define the operators `own_name` and `stock_name` of a place, if they are not defined yet. */
EXPORT int asp_torch_define(const char *name, const char *key)
{
    return caught([&] { define(places.at({name, key})); });
}

/* Remove our kernel of an operator and dispatch key. */
EXPORT int asp_torch_deregister(const char *name, const char *key)
{
    return caught([&] { places.at({name, key}).registration.reset(); });
}

EXPORT void asp_torch_enter(int sparse_gradients) { enter(sparse_gradients); }
EXPORT void asp_torch_leave(int sparse_gradients) { leave(sparse_gradients); }
EXPORT void asp_torch_set_process(int64_t products, int64_t sparse_gradients) { set_process(products, sparse_gradients); }
EXPORT int asp_torch_is_on() { return is_on(); }
EXPORT int asp_torch_has_sparse_gradients() { return has_sparse_gradients(); }
EXPORT int asp_torch_is_on_anywhere() { return n_anywhere != 0; }

/* Return the number of the remembered structure whose product Python computes now, or 0; the second call returns 0. */
EXPORT int64_t asp_torch_known() { return std::exchange(known, 0); }
EXPORT void asp_torch_forget() { forget_structures(); }

/* Let the kernels compute small products (1), or leave every product to Python (0). */
EXPORT void asp_torch_compute(int yes) { computes = yes; }
EXPORT int64_t asp_torch_n_computed() { return n_computed; }
