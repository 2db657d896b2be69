/* Forget the vector words, so that the next vec_*.h can define them for another type. */
#undef V
#undef VM
#undef VL
#undef VB
#undef v_zero
#undef v_set1
#undef v_load
#undef v_store
#undef v_stream
#undef v_fma
#undef v_mask
#undef v_loadm
#undef v_storem
#undef VJ
#undef v_can_join
#undef v_joint
#undef v_join
