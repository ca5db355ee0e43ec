/* Calls of API functions by the code of their signature. */
#include "tensor/functions/signature.h"

#include <stddef.h>

int
fn_axis(const struct fn_arg *arg)
{
    const int64_t far_out = 1 << 20; /* below BELL_FLAT's magnitude */

    if (!arg->given)
        return BELL_FLAT;
    if (arg->i > far_out || arg->i < -far_out)
        return arg->i < 0 ? (int)-far_out : (int)far_out;
    return (int)arg->i;
}

#define T(k) a[k]->t
#define S(k) a[k]->ts, a[k]->n
#define L(k) a[k]->ints, a[k]->n
#define I(k) a[k]->i
#define A(k) fn_axis(a[k])
#define F(k) a[k]->f
#define B(k) a[k]->b
#define Y(k) a[k]->dtype
#define R(k) a[k]->reduction
#define X(k) a[k]->items, a[k]->n

struct bell_tensor *
fn_apply(const struct fn_signature *f, struct bell_context *ctx,
         const struct fn_arg *const *a)
{
    /* clang-format off */
    switch (f->form) {
    case FN_t: return f->t(T(0));
    case FN_tt: return f->tt(T(0), T(1));
    case FN_ttt: return f->ttt(T(0), T(1), T(2));
    case FN_tttf: return f->tttf(T(0), T(1), T(2), F(3));
    case FN_tttff: return f->tttff(T(0), T(1), T(2), F(3), F(4));
    case FN_ttf: return f->ttf(T(0), T(1), F(2));
    case FN_ttffb: return f->ttffb(T(0), T(1), F(2), F(3), B(4));
    case FN_ttfir: return f->ttfir(T(0), T(1), F(2), I(3), R(4));
    case FN_ttfr: return f->ttfr(T(0), T(1), F(2), R(3));
    case FN_ttr: return f->ttr(T(0), T(1), R(2));
    case FN_tttfir: return f->tttfir(T(0), T(1), T(2), F(3), I(4), R(5));
    case FN_tttir: return f->tttir(T(0), T(1), T(2), I(3), R(4));
    case FN_tttr: return f->tttr(T(0), T(1), T(2), R(3));
    case FN_ttto: return f->ttto(T(0), T(1), T(2), a[3]->conv);
    case FN_ttttfbf:
        return f->ttttfbf(T(0), T(1), T(2), T(3), F(4), B(5), F(6));
    case FN_tttttf: return f->tttttf(T(0), T(1), T(2), T(3), T(4), F(5));
    case FN_tnttf: return f->tnttf(T(0), a[1]->n, T(2), T(3), F(4));
    case FN_tittf: return f->tittf(T(0), I(1), T(2), T(3), F(4));
    case FN_tf: return f->tf(T(0), F(1));
    case FN_tff: return f->tff(T(0), F(1), F(2));
    case FN_tfaf: return f->tfaf(T(0), F(1), A(2), F(3));
    case FN_tflb: return f->tflb(T(0), F(1), L(2), B(3));
    case FN_tb: return f->tb(T(0), B(1));
    case FN_ty: return f->ty(T(0), Y(1));
    case FN_tp: return f->tp(T(0), a[1]->pool);
    case FN_tl: return f->tl(T(0), L(1));
    case FN_tlb: return f->tlb(T(0), L(1), B(2));
    case FN_ttb: return f->ttb(T(0), T(1), B(2));
    case FN_ttbb: return f->ttbb(T(0), T(1), B(2), B(3));
    case FN_tti: return f->tti(T(0), T(1), I(2));
    case FN_tib: return f->tib(T(0), I(1), B(2));
    case FN_tatti: return f->tatti(T(0), A(1), T(2), T(3), I(4));
    case FN_tiff: return f->tiff(T(0), I(1), F(2), F(3));
    case FN_tlbf: return f->tlbf(T(0), L(1), B(2), F(3));
    case FN_tlf: return f->tlf(T(0), L(1), F(2));
    case FN_ta: return f->ta(T(0), A(1));
    case FN_taa: return f->taa(T(0), A(1), A(2));
    case FN_tab: return f->tab(T(0), A(1), B(2));
    case FN_tai: return f->tai(T(0), A(1), I(2));
    case FN_taii: return f->taii(T(0), A(1), I(2), I(3));
    case FN_tal: return f->tal(T(0), A(1), L(2));
    case FN_tat: return f->tat(T(0), A(1), T(2));
    case FN_tatt: return f->tatt(T(0), A(1), T(2), T(3));
    case FN_ti: return f->ti(T(0), I(1));
    case FN_tia: return f->tia(T(0), I(1), A(2));
    case FN_tiae: return f->tiae(T(0), I(1), A(2), a[3]->str);
    case FN_tiaa: return f->tiaa(T(0), I(1), A(2), A(3));
    case FN_tiab: return f->tiab(T(0), I(1), A(2), B(3));
    case FN_tx: return f->tx(T(0), X(1));
    case FN_txt: return f->txt(T(0), X(1), T(2));
    case FN_sa: return f->sa(S(0), A(1));
    case FN_es: return f->es(a[0]->str, S(1));
    case FN_ci: return f->ci(ctx, I(0));
    case FN_ciiy: return f->ciiy(ctx, I(0), I(1), Y(2));
    case FN_ciily: return f->ciily(ctx, I(0), I(1), L(2), Y(3));
    case FN_cly: return f->cly(ctx, L(0), Y(1));
    case FN_clfy: return f->clfy(ctx, L(0), F(1), Y(2));
    case FN_clffy: return f->clffy(ctx, L(0), F(1), F(2), Y(3));
    case FN_cffiy: return f->cffiy(ctx, F(0), F(1), I(2), Y(3));
    case FN_cfffy: return f->cfffy(ctx, F(0), F(1), F(2), Y(3));
    }
    /* clang-format on */
    return NULL;
}
