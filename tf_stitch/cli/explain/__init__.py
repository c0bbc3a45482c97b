"""What `tf_stitch explain` is made of."""
